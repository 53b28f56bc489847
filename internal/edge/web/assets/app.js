// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// The page works without this script. It adds charts with values under the pointer, copying and filters, and it keeps the page up
// to date. It only reads, and only from this server.

const refreshSeconds = 30;

// ago formats seconds like the server: "38 s", "12 min", "5 h" or "3 d".
function ago(seconds) {
  if (seconds < 120) return `${Math.max(0, Math.floor(seconds))} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} d`;
}

// The clock of the viewer may differ from that of the server, so the age counts from when the page arrived.
let arrived = performance.now();
let ageThen = readAge(document);
let lost = "";

function readAge(doc) {
  const made = doc.querySelector("footer [data-now]");
  const contact = doc.querySelector("[data-contact]");
  return made && contact ? Number(made.dataset.now) - Number(contact.dataset.contact) : null;
}

function showAge() {
  const status = document.getElementById("status");
  const age = document.getElementById("age");
  const seconds = ageThen === null ? null : ageThen + (performance.now() - arrived) / 1000;
  if (age && seconds !== null) age.textContent = `data ${ago(seconds)} old${lost}`;
  if (status) status.classList.toggle("stale", lost !== "" || (seconds !== null && seconds > 300));
}

// busy reports whether a replacement of the page would disturb the viewer.
function busy() {
  const active = document.activeElement;
  const inside = active && document.querySelector("main").contains(active) && active.id !== "content";
  return document.hidden || inside || !getSelection().isCollapsed || document.querySelector("details[open]") || document.querySelector(".u-over:hover");
}

async function refresh() {
  if (busy()) return;
  try {
    const response = await fetch(location.href, { headers: { Accept: "text/html" }, signal: AbortSignal.timeout(15000) });
    if (!response.ok) throw new Error(`status ${response.status}`);
    const next = new DOMParser().parseFromString(await response.text(), "text/html");
    if (busy() || !next.querySelector("main")) return;
    const at = scrollY;
    for (const part of ["main", "header .status", "footer"]) document.querySelector(part).replaceWith(next.querySelector(part));
    arrived = performance.now();
    ageThen = readAge(document);
    lost = "";
    prepare();
    scrollTo(0, at);
  } catch {
    lost = "; podfit does not answer";
  }
  showAge();
}

// filter opens the page with the parameters of the form. The content security policy allows no form to be sent.
function filter(form) {
  const parameters = new URLSearchParams();
  for (const [name, value] of new FormData(form)) if (value !== "") parameters.set(name, value);
  if (parameters.get("sort") === "risk") parameters.delete("sort");
  const query = parameters.toString();
  location.assign(location.pathname + (query ? `?${query}` : ""));
}

async function copy(button) {
  const source = document.getElementById(button.dataset.copy);
  const before = button.textContent;
  try {
    await navigator.clipboard.writeText(source.textContent);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(source);
    button.textContent = "Selected";
  }
  setTimeout(() => { button.textContent = before; }, 2000);
}

const months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

function day(t) {
  const d = new Date(t * 1000);
  return `${d.getUTCDate()} ${months[d.getUTCMonth()]}`;
}

function hour(t) {
  const d = new Date(t * 1000);
  return `${String(d.getUTCHours()).padStart(2, "0")}:00`;
}

function digits(v) {
  return v >= 100 ? v.toFixed(0) : v >= 10 ? v.toFixed(1) : v.toPrecision(3);
}

// draw shows a chart with values under the pointer on the screen, in place of the image, which remains for print.
function draw(figure) {
  const data = JSON.parse(figure.dataset.chart);
  const plot = figure.querySelector(".plot");
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const main = colour(figure.dataset.class === "cpu" ? "--cpu" : "--mem");
  const font = "11px system-ui, sans-serif";
  const read = document.createElement("p");
  read.className = "read";
  const shown = (v) => v !== undefined && v <= data.top;

  function paint(u) {
    const { ctx } = u;
    const { left, top, width, height } = u.bbox;
    const scale = devicePixelRatio || 1;
    const y = (v) => u.valToPos(v, "y", true);
    const x = (t) => u.valToPos(t, "x", true);
    const line = (v, style, size, dash) => {
      if (!shown(v)) return;
      ctx.strokeStyle = style;
      ctx.lineWidth = size * scale;
      ctx.setLineDash(dash.map((n) => n * scale));
      ctx.beginPath();
      ctx.moveTo(left, y(v));
      ctx.lineTo(left + width, y(v));
      ctx.stroke();
    };
    const steps = (style, size) => {
      ctx.strokeStyle = style;
      ctx.lineWidth = size;
      ctx.setLineDash([]);
      ctx.beginPath();
      data.requests.forEach((s, i) => {
        if (i === 0) ctx.moveTo(x(s.at), y(s.value));
        else ctx.lineTo(x(s.at), y(s.value));
        ctx.lineTo(i + 1 < data.requests.length ? x(data.requests[i + 1].at) : left + width, y(s.value));
      });
      ctx.stroke();
    };
    ctx.save();
    if (data.lower !== undefined && data.upper !== undefined) {
      ctx.globalAlpha = 0.12;
      ctx.fillStyle = colour("--cpu");
      ctx.fillRect(left, y(data.upper), width, y(data.lower) - y(data.upper));
      ctx.globalAlpha = 1;
    }
    if (data.requests) steps(colour("--ink"), 1.6 * scale);
    else line(data.request, colour("--ink"), 1.6, []);
    line(data.target, colour("--cpu"), 1.4, [2, 3]);
    line(data.limit, colour("--bad"), 1, [5, 4]);
    ctx.setLineDash([2 * scale, 3 * scale]);
    ctx.strokeStyle = colour("--faint");
    ctx.lineWidth = scale;
    for (const t of data.changes || []) {
      ctx.beginPath();
      ctx.moveTo(x(t), top);
      ctx.lineTo(x(t), top + height);
      ctx.stroke();
    }
    ctx.setLineDash([]);
    ctx.strokeStyle = colour("--bad");
    ctx.lineWidth = 1.8 * scale;
    for (const t of data.kills || []) {
      const r = 4 * scale;
      ctx.beginPath();
      ctx.moveTo(x(t) - r, top + r);
      ctx.lineTo(x(t) + r, top + 3 * r);
      ctx.moveTo(x(t) + r, top + r);
      ctx.lineTo(x(t) - r, top + 3 * r);
      ctx.stroke();
    }
    ctx.restore();
  }

  function tell(u) {
    const i = u.cursor.idx;
    const peak = i === null || i === undefined ? null : data.peaks[i];
    if (i === null || i === undefined) {
      read.textContent = "";
      return;
    }
    const t = data.times[i];
    const step = (data.requests || []).findLast((s) => s.at <= t);
    const request = data.requests ? step && step.value : data.request;
    read.textContent = `${day(t)}, ${hour(t)} UTC: ${peak === null ? "no samples" : `peak ${digits(peak)} ${data.unit}`}`
      + (request === undefined ? "" : `, request ${digits(request)} ${data.unit}`);
  }

  plot.classList.add("live");
  plot.removeAttribute("tabindex"); // it does not scroll any more
  plot.removeAttribute("aria-labelledby");
  plot.setAttribute("role", "img");
  plot.setAttribute("aria-label", `${figure.dataset.title}: hourly peaks, request and limit. The table below has the values.`);
  const axis = { stroke: colour("--faint"), font, grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
  const chart = new uPlot({
    width: Math.max(plot.clientWidth, 200), height: plot.clientWidth < 600 ? 190 : 230, tzDate: (t) => uPlot.tzDate(new Date(t * 1000), "UTC"),
    legend: { show: false }, cursor: { y: false, drag: { x: true, y: false } },
    scales: { x: { range: (_, min, max) => [min, Math.max(max, min + 21600)] }, y: { range: [0, data.top] } },
    axes: [
      { ...axis, grid: { show: false }, size: 26, space: 70, values: (_, ticks) => ticks.map((t) => (t % 86400 === 0 ? day(t) : hour(t))) },
      { ...axis, size: 44, values: (_, ticks) => ticks.map((v) => String(Number(v.toPrecision(3)))) },
    ],
    series: [{}, { stroke: main, width: 1.4, fill: `${main}2e`, spanGaps: false, points: { show: data.times.length < 6, size: 5, fill: main } }],
    hooks: { draw: [paint], setCursor: [tell] },
  }, [data.times, data.peaks], plot);
  figure.querySelector("figcaption").before(read);
  return chart;
}

let charts = [];

function drawAll() {
  charts.forEach(({ chart }) => chart.destroy());
  charts = [];
  if (typeof uPlot === "undefined") return;
  for (const figure of document.querySelectorAll("figure[data-chart]")) {
    figure.querySelectorAll(".read").forEach((old) => old.remove());
    charts.push({ figure, chart: draw(figure) });
  }
}

function prepare() {
  for (const button of document.querySelectorAll("button[data-copy]")) {
    button.hidden = false;
    button.addEventListener("click", () => copy(button));
  }
  for (const form of document.querySelectorAll("form[data-filter]")) {
    form.addEventListener("submit", (event) => { event.preventDefault(); filter(form); });
  }
  drawAll();
}

prepare();
showAge();
setInterval(showAge, 5000);
setInterval(refresh, refreshSeconds * 1000);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
let width = innerWidth;
addEventListener("resize", () => {
  if (innerWidth === width) return;
  width = innerWidth;
  for (const { figure, chart } of charts) {
    const plot = figure.querySelector(".plot");
    chart.setSize({ width: Math.max(plot.clientWidth, 200), height: plot.clientWidth < 600 ? 190 : 230 });
  }
});
