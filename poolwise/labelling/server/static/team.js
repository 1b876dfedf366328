// Access links: made and revoked by the owner.
"use strict";

const find = (id) => document.getElementById(id);
const problem = find("team-said");

const invite = find("invite");
if (invite) {
  invite.addEventListener("submit", async (event) => {
    event.preventDefault();
    problem.textContent = "";
    try {
      const made = await call("/api/people", { name: find("invite-name").value.trim() });
      find("link-name").textContent = made.name;
      find("link-text").value = new URL(made.path, location.href).href;
      find("link").hidden = false;
      find("link-text").focus();
      find("link-text").select();
      invite.reset();
    } catch (error) {
      problem.textContent = error.message;
    }
  });
  find("copy").onclick = async () => {
    find("link-text").select();
    try {
      await navigator.clipboard.writeText(find("link-text").value);
    } catch {
      document.execCommand("copy"); // where the connection is not encrypted
    }
    find("copy").textContent = "Copied";
  };
}

for (const button of document.querySelectorAll(".revoke")) {
  button.onclick = async () => {
    if (!button.dataset.sure) {
      button.dataset.sure = "yes";
      button.textContent = "Really revoke?";
      return;
    }
    try {
      await call("/api/people/revoke", { name: button.dataset.name });
      button.replaceWith(make("span", { class: "quiet", text: "revoked" }));
    } catch (error) {
      problem.textContent = error.message;
    }
  };
}
