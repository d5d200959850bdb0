"use strict";
/* One picture after the other by keys and touch; an answer that did not arrive is sent again until it did. */
(() => {
  const WAITS = [500, 1000, 2000, 4000, 8000];
  const turn = () => document.getElementById("turn");
  const status = (text) => { document.getElementById("saving").textContent = text; };
  let shownAt = performance.now();
  let busy = false;

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

  function show(text) {
    const page = new DOMParser().parseFromString(text, "text/html");
    const next = page.getElementById("turn");
    if (!next) { location.reload(); return; }
    turn().replaceWith(document.adoptNode(next));
    shownAt = performance.now();
    document.getElementById("main").focus({ preventScroll: true });
    scrollTo(0, 0);
  }

  async function submit(form, button) {
    if (busy) return;
    busy = true;
    status("Saving");
    turn().setAttribute("aria-busy", "true");
    try {
      const answer = await send(form, body(form, button));
      if (answer.status === 403 && form.action.includes("/rate/")) { location.reload(); return; }
      show(await answer.text());
      status(answer.ok ? "Saved" : "");
    } finally {
      busy = false;
    }
  }

  document.addEventListener("submit", (event) => {
    if (!turn().contains(event.target)) return;
    event.preventDefault();
    submit(event.target, event.submitter);
  });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    const button = turn().querySelector(event.key === "Backspace" ? ".undo button" : `.answers [data-key="${CSS.escape(event.key)}"]`);
    if (!button) return;
    event.preventDefault();
    button.form.requestSubmit(button);
  });
  document.addEventListener("click", (event) => {
    if (!event.target.classList.contains("reveal")) return;
    turn().querySelector(".turn-pictures").classList.remove("blurred");
    event.target.remove();
  });
})();
