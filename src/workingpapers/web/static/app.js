// Formulas, keys, copying and the live progress of a job. Everything else works without it.
"use strict";

function renderFormulas(root) {
  for (const node of root.querySelectorAll(".math:not([data-done])")) {
    const source = node.textContent;
    node.dataset.done = "true";
    try {
      katex.render(source, node, { displayMode: node.classList.contains("display"), throwOnError: true, trust: false });
    } catch (error) {
      node.textContent = source; // a reader makes more of the source than of an error
    }
  }
}

function moveAmongHits(step) {
  const hits = [...document.querySelectorAll("#results .hit h2 a")];
  const box = document.getElementById("q");
  const place = hits.indexOf(document.activeElement) + step;
  if (place < 0) box.focus();
  else if (place < hits.length) hits[place].focus();
}

function onKey(event) {
  const box = document.getElementById("q");
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target.closest("input, select, textarea");
  if (event.key === "/" && !typing) {
    event.preventDefault();
    if (box) { box.focus(); box.select(); } else location.assign("/#q");
    return;
  }
  if (!box || (typing && event.target !== box)) return;
  const amongHits = event.target === box || event.target.closest("#results .hit") || event.target === document.body;
  if (amongHits && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
    event.preventDefault();
    moveAmongHits(event.key === "ArrowDown" ? 1 : -1);
  } else if (event.key === "Escape" && event.target !== box) {
    box.focus();
  }
}

async function onClick(event) {
  const button = event.target.closest(".copy");
  if (!button) return;
  const code = button.parentElement.querySelector("code");
  const word = button.querySelector(".copy-word");
  try {
    await navigator.clipboard.writeText(code.textContent);
  } catch (error) { // over plain http from another machine there is no clipboard: select, so that Ctrl-C does it
    getSelection().selectAllChildren(code);
    return;
  }
  const before = word.textContent;
  word.textContent = button.dataset.copied;
  setTimeout(() => { word.textContent = before; }, 1500);
}

function duration(seconds) {
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}

function followJob(live) {
  const show = (name, text) => { document.getElementById(name).textContent = text; };
  const events = new EventSource(`/api/jobs/${live.dataset.job}/events`);
  let elapsed = 0, heard = Date.now(), state = "waiting";
  events.onmessage = (message) => {
    const job = JSON.parse(message.data);
    if (!["waiting", "running"].includes(job.state)) {
      events.close();
      location.reload();
      return;
    }
    const { progress } = job;
    if (job.state !== state) {
      state = job.state;
      const badge = document.getElementById("state");
      badge.textContent = live.dataset[state];
      badge.className = `badge state ${state}`;
    }
    [elapsed, heard] = [job.elapsed, Date.now()];
    if (progress.claim) show("claim", progress.claims > 1 ? `${progress.claim} (${progress.place + 1}/${progress.claims})` : progress.claim);
    if (progress.total) show("done", `${progress.done} / ${progress.total}`);
    if (progress.arm) { show("arm", progress.arm.replaceAll("_", " ")); show("seed", progress.seed); }
    if (progress.remaining !== undefined) show("remaining", duration(progress.remaining));
    if (state === "running") show("message", progress.message || (Object.keys(progress).length ? "" : live.dataset.starting));
    const bar = document.getElementById("bar");
    bar.value = progress.total ? progress.done / progress.total : progress.fraction || 0;
  };
  events.onerror = () => { show("message", live.dataset.lost); };
  setInterval(() => {
    if (state === "running") show("elapsed", duration(elapsed + (Date.now() - heard) / 1000));
  }, 1000);
}

document.addEventListener("keydown", onKey);
document.addEventListener("click", onClick);
document.addEventListener("htmx:afterSwap", (event) => renderFormulas(event.target));
document.addEventListener("DOMContentLoaded", () => {
  renderFormulas(document);
  if (location.hash === "#q") document.getElementById("q")?.focus(); // "/" was pressed on another page
  const live = document.getElementById("live");
  if (live) followJob(live);
});
