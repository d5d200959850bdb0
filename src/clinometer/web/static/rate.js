"use strict";
/* One picture after the other by keys and touch; an answer that did not arrive is sent again until it did. */
(() => {
  const WAITS = [500, 1000, 2000, 4000, 8000];
  const turn = () => document.getElementById("turn");
  const status = (text) => { document.getElementById("saving").textContent = text; };
  let shownAt = performance.now();
  let busy = false;
  let cameEarly = false;
  let undoNext = false;

  function body(form, button) {
    const fields = new URLSearchParams(new FormData(form));
    if (button && button.name) fields.set(button.name, button.value);
    if (fields.has("seconds")) fields.set("seconds", ((performance.now() - shownAt) / 1000).toFixed(2));
    return fields;
  }

  async function send(form, fields) {
    for (let attempt = 0; ; attempt += 1) {
      try {
        const answer = await fetch(form.action, { method: "POST", body: fields, headers: { "X-Part": "turn" }, credentials: "same-origin" });
        if (answer.status < 500 && answer.status !== 429) return answer;
      } catch { /* no connection: once more */ }
      status("Not saved yet: no connection. Your answer is kept here and sent again.");
      await new Promise((resume) => setTimeout(resume, WAITS[Math.min(attempt, WAITS.length - 1)]));
    }
  }

  // What was chosen is kept until the server said that it has it: a reload, or a server that starts again, loses nothing.
  const KEPT = `clinometer ${location.pathname}`;
  function keep(fields, tries = 0) {
    localStorage.setItem(KEPT, JSON.stringify({ place: fields.get("place"), answer: fields.get("answer"), seconds: fields.get("seconds"), tries }));
  }

  function show(page) {
    const next = page.getElementById("turn");
    if (!next) { location.reload(); return false; }
    turn().replaceWith(document.adoptNode(next));
    shownAt = performance.now();
    document.getElementById("main").focus({ preventScroll: true });
    scrollTo(0, 0);
    return true;
  }

  async function submit(form, button, fields = body(form, button)) {
    if (busy) {
      // An undo is of what was seen, so it waits its turn; an answer would be of a picture that is not there yet.
      if (form.matches(".undo")) undoNext = true; else cameEarly = true;
      return;
    }
    busy = true;
    status("Saving");
    turn().setAttribute("aria-busy", "true");
    const isAnswer = fields.has("answer");
    if (isAnswer && !localStorage.getItem(KEPT)) keep(fields);
    let undo = null;
    try {
      const answer = await send(form, fields);
      const text = await answer.text();
      if (answer.ok || answer.status === 400 || text.includes('id="turn"')) localStorage.removeItem(KEPT);
      const page = new DOMParser().parseFromString(text, "text/html");
      undo = undoNext ? page.querySelector("#turn .undo") : null; // what is taken back needs no next picture
      if (!undo && show(page)) status(!answer.ok ? "" : cameEarly ? "Saved. Your next answer came before this picture and was not taken: please answer again." : "Saved");
    } finally {
      busy = cameEarly = undoNext = false;
    }
    if (undo) await submit(undo);
  }

  // The session may have ended meanwhile: this page has a new one, so what was kept is sent again, a few times at most.
  const kept = JSON.parse(localStorage.getItem(KEPT) || "null");
  const form = turn().querySelector(".answers");
  if (kept && (!form || form.elements.place.value !== kept.place || kept.tries > 2)) localStorage.removeItem(KEPT);
  else if (kept) {
    const fields = body(form);
    for (const name of ["answer", "seconds"]) fields.set(name, kept[name]);
    keep(fields, kept.tries + 1);
    submit(form, null, fields);
  }

  document.addEventListener("submit", (event) => {
    if (!turn().contains(event.target)) return;
    event.preventDefault();
    submit(event.target, event.submitter);
  });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    const button = turn().querySelector(event.key === "Backspace" ? ".undo button" : `.answers [data-key="${CSS.escape(event.key)}"]`);
    if (button || event.key === "Backspace") event.preventDefault();
    if (button) button.form.requestSubmit(button);
    else if (busy && event.key === "Backspace") undoNext = true; // the first answer is on its way
  });
  document.addEventListener("click", (event) => {
    if (!event.target.classList.contains("reveal")) return;
    turn().querySelector(".turn-pictures").classList.remove("blurred");
    event.target.remove();
  });
})();
