// What every page does that shows tables and figures.
"use strict";
(() => {
  // --- what is wider than its place says that it scrolls
  const watch = new ResizeObserver((entries) => {
    for (const region of new Set(entries.map((entry) => entry.target.closest(".scroll"))))
      region.toggleAttribute("data-scrolls", region.scrollWidth > region.clientWidth + 1);
  });
  const watchRegions = (root) => {
    for (const region of root.querySelectorAll(".scroll"))
      for (const element of [region, ...region.children]) watch.observe(element);
  };

  // --- marks in figures have names: under the pointer, by touch, and by keyboard with one stop a figure
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  tip.setAttribute("aria-hidden", "true"); // a mark's own name says the same
  document.body.append(tip);
  const middle = (mark) => {
    const box = mark.getBoundingClientRect();
    return [box.left + box.width / 2, box.top + box.height / 2];
  };
  const tell = (mark) => {
    tip.hidden = !mark;
    if (!mark) return;
    tip.textContent = mark.getAttribute("aria-label");
    const [x, y] = middle(mark);
    const { width, height } = tip.getBoundingClientRect();
    const edge = document.documentElement.clientWidth - width - 8;
    const above = y - height - 14;
    tip.style.left = `${scrollX + Math.max(8, Math.min(x - width / 2, edge))}px`;
    tip.style.top = `${scrollY + (above > 0 ? above : y + 14)}px`;
  };
  const nearest = (marks, event) => {
    const away = (mark) => Math.hypot(...middle(mark).map((at, axis) => at - [event.clientX, event.clientY][axis]));
    const [least, mark] = marks.map((mark) => [away(mark), mark]).sort((one, other) => one[0] - other[0])[0];
    return least <= 16 ? mark : null;
  };
  const nameMarks = (svg) => {
    const marks = Array.from(svg.querySelectorAll(".mark")).filter((mark) => mark.querySelector("title"));
    if (!marks.length) return;
    svg.setAttribute("role", "group");
    marks.forEach((mark, order) => {
      const title = mark.querySelector("title");
      mark.setAttribute("role", "img");
      mark.setAttribute("aria-label", title.textContent);
      mark.setAttribute("tabindex", order ? "-1" : "0");
      title.remove(); // the browser's own hint would stand over this one
      mark.addEventListener("focus", () => tell(mark));
      mark.addEventListener("blur", () => tell(null));
    });
    for (const name of ["pointermove", "pointerdown"])
      svg.addEventListener(name, (event) => tell(nearest(marks, event)));
    svg.addEventListener("pointerleave", () => tell(marks.find((mark) => mark === document.activeElement)));
    svg.addEventListener("keydown", (event) => {
      const now = marks.indexOf(document.activeElement);
      const steps = { ArrowRight: now + 1, ArrowDown: now + 1, ArrowLeft: now - 1, ArrowUp: now - 1, Home: 0, End: marks.length - 1 };
      if (event.key === "Escape") tell(null);
      if (!(event.key in steps)) return;
      event.preventDefault();
      const next = marks[(steps[event.key] + marks.length) % marks.length];
      marks[now].setAttribute("tabindex", "-1");
      next.setAttribute("tabindex", "0");
      next.focus();
    });
  };
  document.addEventListener("keydown", (event) => event.key === "Escape" && tell(null));

  const prepare = (root) => {
    watchRegions(root);
    for (const svg of root.querySelectorAll(".plot svg")) nameMarks(svg);
  };
  prepare(document);
  document.addEventListener("htmx:load", (event) => prepare(event.detail.elt)); // a part of a page that comes later
})();
