"use strict";

// The theme tells its developers on the console what it does; readers need not know.
{
  const log = console.log;
  console.log = (...words) => String(words[0]).startsWith("[PST]") || log(...words);
}

document.addEventListener("DOMContentLoaded", () => {
  // The arrows that unfold the contents have no name of their own.
  for (const arrow of document.querySelectorAll("nav summary")) {
    const link = arrow.closest("li")?.querySelector("a");
    if (link && !arrow.textContent.trim()) arrow.setAttribute("aria-label", `Pages below ${link.textContent.trim()}`);
  }
});
