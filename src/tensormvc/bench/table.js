"use strict";
// Makes tables sortable and filterable. Without this script they show all rows.
for (const box of document.querySelectorAll("[data-filters]")) {
  const table = box.querySelector("table");
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const heads = [...table.tHead.rows[0].cells];
  const title = table.caption.textContent;
  const text = (row, column) => row.cells[column].textContent.trim();
  const number = (shown) => parseFloat(shown.replace("−", "-"));

  const controls = document.createElement("div");
  controls.className = "controls";
  const status = document.createElement("p");
  status.className = "note";
  status.setAttribute("role", "status");

  const started = new URLSearchParams(box.dataset.start);
  const filters = box.dataset.filters.split(" ").map((column) => {
    const name = heads[column].textContent;
    const label = document.createElement("label");
    const select = document.createElement("select");
    select.setAttribute("aria-label", `${name}: ${title}`);
    select.append(new Option("all", ""));
    for (const value of new Set(rows.map((row) => text(row, column)))) select.append(new Option(value, value));
    if (rows.some((row) => text(row, column) === started.get(name))) select.value = started.get(name);
    select.addEventListener("change", show);
    label.append(`${name} `, select);
    controls.append(label);
    return { column, select };
  });

  function show() {
    let shown = 0;
    for (const row of rows) {
      row.hidden = filters.some(({ column, select }) => select.value !== "" && text(row, column) !== select.value);
      shown += row.hidden ? 0 : 1;
    }
    status.textContent = `${shown} of ${rows.length} rows`;
  }

  heads.forEach((head, column) => {
    const numeric = head.classList.contains("number");
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const first = numeric ? "descending" : "ascending";
      const second = numeric ? "ascending" : "descending";
      const direction = head.getAttribute("aria-sort") === first ? second : first;
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", direction);
      const sign = direction === "ascending" ? 1 : -1;
      // Cells without a number stay at the end in both directions.
      const compare = numeric
        ? (a, b) => {
            const [x, y] = [number(text(a, column)), number(text(b, column))];
            return isNaN(x) || isNaN(y) ? isNaN(x) - isNaN(y) : sign * (x - y);
          }
        : (a, b) => sign * text(a, column).localeCompare(text(b, column), "en", { numeric: true });
      rows.sort(compare);
      body.append(...rows);
    });
  });

  box.prepend(controls, status);
  show();
}
