// What all pages share: calls of the server.
"use strict";

class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

// Send something to the server. Throws Refused if it says no, and another error if it cannot be reached.
async function call(path, body, wait = 15000) {
  const token = document.querySelector('meta[name="poolwise-token"]').content;
  const options = { cache: "no-store", signal: AbortSignal.timeout(wait) };
  if (body !== undefined) {
    options.method = "POST";
    options.headers = { "Content-Type": "application/json", "X-Poolwise-Token": token };
    options.body = JSON.stringify(body);
  }
  const response = await fetch(path, options);
  if (response.ok) return response.json(); // throws if the connection is lost halfway
  const answer = await response.json().catch(() => ({}));
  throw new Refused(response.status, answer.error || "The server said no.");
}

// A name that nobody else uses, so that an answer that is sent twice is stored once.
function requestName() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

// An element with attributes, properties and children; texts are never read as HTML.
function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "text") element.textContent = value;
    else element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}

function percent(share) {
  return `${Math.round(100 * share)}%`;
}
