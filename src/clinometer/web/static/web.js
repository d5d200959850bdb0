"use strict";
// The arrow keys go from picture to picture, those above and below too.
document.addEventListener("keydown", (event) => {
  const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -2, ArrowDown: 2 }[event.key];
  const here = document.activeElement.closest("a:has(.tile), a.tile");
  if (!step || !here || event.altKey || event.ctrlKey || event.metaKey) return;
  const all = [...document.querySelectorAll("a:has(.tile), a.tile")];
  const next = Math.abs(step) === 1 ? all[all.indexOf(here) + step] : beyond(all, here, Math.sign(step));
  if (next) {
    event.preventDefault();
    next.focus();
  }
});
// The nearest picture in the next line above or below.
function beyond(all, here, sign) {
  const middle = (box) => box.left + box.width / 2;
  const own = here.getBoundingClientRect();
  let nearest = null;
  let least = Infinity;
  for (const tile of all) {
    const box = tile.getBoundingClientRect();
    const away = sign * (box.top - own.top);
    if (away < own.height / 2) continue;
    const cost = 10 * away + Math.abs(middle(box) - middle(own));
    if (cost < least) [nearest, least] = [tile, cost];
  }
  return nearest;
}
// On a phone the pictures come first: what can be chosen waits to be opened.
if (matchMedia("(max-width: 61.99rem)").matches) {
  document.querySelectorAll(".owners-choice[open]").forEach((details) => details.removeAttribute("open"));
}
