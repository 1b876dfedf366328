// Keep the page of progress up to date: it is drawn by the server, and replaced when something has changed.
"use strict";

let seen = null;

async function watch() {
  if (document.visibilityState !== "visible") return;
  try {
    const status = await call("/api/status");
    const now = JSON.stringify([status.labels, status.model, status.batch, status.worker.doing]);
    if (seen !== null && now !== seen) {
      const page = await (await fetch(location.href, { cache: "no-store" })).text();
      const fresh = new DOMParser().parseFromString(page, "text/html").getElementById("main");
      const open = [...document.querySelectorAll("details")].map((box) => box.open);
      fresh.querySelectorAll("details").forEach((box, n) => (box.open = Boolean(open[n])));
      if (!document.getElementById("main").contains(document.activeElement)) document.getElementById("main").replaceWith(fresh);
      else return;
    }
    seen = now;
  } catch {
    // the server is away; the next look tells
  }
}

setInterval(watch, 3000);
watch();
