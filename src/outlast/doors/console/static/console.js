// What pages do beyond links and forms: keys, copying, a question before what cannot be undone, and looking again.
(() => {
  "use strict";
  const typing = (node) => node && node.matches("input:not([type=checkbox]):not([type=radio]), textarea, select");
  const rows = () => [...document.querySelectorAll("[data-row]")];
  let chosen = -1;

  const choose = (step) => {
    const all = rows();
    if (!all.length) return;
    chosen = Math.min(Math.max(chosen + step, 0), all.length - 1);
    all.forEach((row, at) => row.classList.toggle("chosen", at === chosen));
    const link = all[chosen].querySelector("a[href]");
    if (link) link.focus();
    all[chosen].scrollIntoView({ block: "nearest" });
  };
  const keys = {
    "/": () => (document.querySelector("[data-search]") || { focus: () => { location.href = "/runs"; } }).focus(),
    j: () => choose(1),
    k: () => choose(-1),
    a: () => { const found = document.querySelector("[data-key=a]") || (rows()[Math.max(chosen, 0)] || document).querySelector("button.good"); if (found) found.focus(); },
    g: () => { location.href = "/"; },
    "?": () => { location.href = "/help"; },
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target) || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });

  // On a narrow screen the names of the screens are one line that is moved: the one that is open is in sight.
  const open = document.querySelector("nav [aria-current]");
  if (open) open.parentElement.scrollLeft = open.offsetLeft - open.parentElement.offsetLeft - 40;

  document.addEventListener("click", (event) => {
    const copies = event.target.closest("[data-copy]");
    if (copies) {
      event.preventDefault();
      navigator.clipboard.writeText(copies.dataset.copy).then(() => { copies.textContent = "copied"; }, () => {});
    }
    const asks = event.target.closest("[data-confirm]");
    if (asks && !confirm(asks.dataset.confirm)) event.preventDefault();
  });

  // A box that ticks all the others of its form.
  document.addEventListener("change", (event) => {
    const name = event.target.dataset.all;
    if (name) event.target.form.querySelectorAll(`input[name=${name}]`).forEach((box) => { box.checked = event.target.checked; });
  });

  // A form is sent once, however often it is clicked.
  document.addEventListener("submit", (event) => {
    if (event.defaultPrevented) return;
    if (event.target.dataset.sent) event.preventDefault();
    event.target.dataset.sent = "yes";
  });
  addEventListener("pageshow", () => document.querySelectorAll("form").forEach((form) => delete form.dataset.sent));

  // Looking again must not take away what somebody is about to type, tick or press; nor what he unfolded.
  document.addEventListener("htmx:beforeRequest", (event) => {
    const place = event.target;
    if (place.id !== "live") return;
    const active = document.activeElement;
    const busy = document.hidden || (place.contains(active) && (typing(active) || active.closest("form")));
    if (busy || place.querySelector("form input:checked")) event.preventDefault();
  });
  document.addEventListener("visibilitychange", () => {
    const place = document.getElementById("live");
    if (!document.hidden && place && window.htmx) htmx.trigger(place, "sse:changed");
  });
  let unfolded = [], focused = "";
  document.addEventListener("htmx:beforeSwap", (event) => {
    const place = event.target;
    if (place.id !== "live") return;
    unfolded = [...place.querySelectorAll("details")].map((each) => each.open);
    focused = place.contains(document.activeElement) ? document.activeElement.getAttribute("href") || "" : "";
  });
  document.addEventListener("htmx:afterSwap", () => {
    const place = document.getElementById("live");
    if (!place) return;
    const all = [...place.querySelectorAll("details")];
    if (all.length === unfolded.length) all.forEach((each, at) => { each.open = unfolded[at]; });
    if (focused) { const link = [...place.querySelectorAll("a")].find((each) => each.getAttribute("href") === focused); if (link) link.focus(); }
    rows().forEach((row, at) => row.classList.toggle("chosen", at === chosen));
    if (place.dataset.title) document.title = place.dataset.title;
  });
})();
