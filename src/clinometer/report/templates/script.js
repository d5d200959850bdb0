"use strict";
(() => {
  const table = document.getElementById("scores");

  // --- sorting: a button in each column's head; empty cells stay last either way
  const keyOf = (row, column, kind) => {
    const cell = row.cells[column];
    if (kind !== "number") return cell.textContent.toLowerCase();
    return cell.dataset.key === undefined ? NaN : Number(cell.dataset.key);
  };
  const compare = (kind, sign) => (x, y) => {
    if (kind === "number") {
      if (Number.isNaN(x.key) || Number.isNaN(y.key)) return Number.isNaN(x.key) - Number.isNaN(y.key);
      return sign * (x.key - y.key);
    }
    if (!x.key || !y.key) return !x.key - !y.key;
    return sign * (x.key < y.key ? -1 : x.key > y.key ? 1 : 0);
  };
  const sortBy = (button) => {
    const head = button.closest("th");
    const order = head.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
    for (const other of head.parentNode.children) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", order);
    const body = table.tBodies[0];
    const rows = Array.from(body.rows, (row) => ({ row, key: keyOf(row, head.cellIndex, button.dataset.kind) }));
    rows.sort(compare(button.dataset.kind, order === "ascending" ? 1 : -1));
    body.append(...rows.map((entry) => entry.row));
  };

  // --- filtering: every word must occur somewhere in the row
  const filter = document.getElementById("filter");
  const metric = document.getElementById("metric");
  const status = document.getElementById("shown");
  const show = () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const row of table.tBodies[0].rows) {
      const text = Array.from(row.cells, (cell) => cell.textContent).join(" ").toLowerCase();
      const fits = words.every((word) => text.includes(word)) && (!metric.value || row.cells[0].children[1].textContent === metric.value);
      row.hidden = !fits;
      count += fits;
    }
    leaveOutEmpty();
    status.textContent = count === 1 ? "1 row" : `${count} rows`;
  };

  // --- a column in which no row that is shown has anything is left out
  const leaveOutEmpty = () => {
    const rows = Array.from(table.tBodies[0].rows);
    const shown = rows.filter((row) => !row.hidden);
    Array.from(table.tHead.rows[0].cells).forEach((head, column) => {
      const empty = shown.length > 0 && shown.every((row) => !row.cells[column].textContent);
      if (head.hidden !== empty) for (const row of [head.parentNode, ...rows]) row.cells[column].hidden = empty;
    });
  };

  // --- saving what is shown; a cell that a spreadsheet would take for a formula is quoted as text
  const parts = (cell) => (cell.cellIndex ? [cell] : Array.from(cell.querySelectorAll("span:not(.arrow)")));
  const field = (cell) => {
    let text = cell.dataset.key ?? cell.textContent.trim();
    if (cell.dataset.key === undefined && /^[=+\-@\t\r]/.test(text)) text = `'${text}`;
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const save = () => {
    const rows = [table.tHead.rows[0], ...Array.from(table.tBodies[0].rows).filter((row) => !row.hidden)];
    const csv = rows.map((row) => Array.from(row.cells).flatMap(parts).map(field).join(",")).join("\r\n");
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([csv], { type: "text/csv" }));
    link.download = "scores-shown.csv";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };

  if (table) {
    table.tHead.addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (button) sortBy(button);
    });
    filter.addEventListener("input", show);
    metric.addEventListener("change", show);
    document.getElementById("save").addEventListener("click", save);
  }

  // --- opening and closing the gallery
  for (const button of document.querySelectorAll("[data-open], [data-close]")) {
    const open = button.dataset.open !== undefined;
    const section = document.getElementById(button.dataset.open ?? button.dataset.close);
    button.addEventListener("click", () => {
      for (const details of section.querySelectorAll("details")) details.open = open;
    });
  }

  // --- an address within what is folded opens it
  const unfold = () => {
    const target = location.hash && document.getElementById(location.hash.slice(1));
    for (let at = target; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
    if (target) target.scrollIntoView();
  };
  window.addEventListener("hashchange", unfold);
  unfold();
})();
