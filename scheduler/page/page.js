// The page of a Shoal cluster. Asks its scheduler every two seconds, keeps what it needs for two minutes of rates, and
// writes whatever the cluster says as text: names come from users.
"use strict";

const PERIOD_MS = 2000;
const PATIENCE_MS = 5000;
const LONGEST_GAP_MS = 10000;
const KEPT_SAMPLES = 60;
const KEPT_EVENTS = 100;
const SHOWN_GONE_MS = 3600000; // as shoalctl

const books = { servers: new Map(), jobs: new Map() }; // what was counted last, and its growth, by id and life
const totals = { in: [], ops: [] };
const jobTimes = new Map(); // of job ids: mean all-reduce times in ms
let asking = false;
let heardAt = null;
let shownAt = null; // on the scheduler's clock

const byId = (id) => document.getElementById(id);
const count = (text) => Number(text ?? 0);

function make(name, options = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(options)) {
    if (key === "class") node.className = value;
    else node.setAttribute(key, value);
  }
  node.append(...children);
  return node;
}

// ---- numbers as text ----

function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (value >= 1024 && unit + 1 < units.length) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

const perSecond = (value) => (value < 10 ? value.toFixed(1) : String(Math.round(value)));

function age(milliseconds) {
  const seconds = milliseconds / 1000;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  if (seconds < 3600) return `${Math.round(seconds / 60)} min`;
  return `${(seconds / 3600).toFixed(1)} h`;
}

const orDash = (value, text) => (value === null ? "–" : text(value));

// ---- rates ----

// Counters come with heartbeats, so that they grow from one heartbeat to the next, not from look to look. Their growth a
// second, or the last one that is known while they have not come anew; null: not known.
function growth(book, key, countedAtMs, counters) {
  const entry = book.get(key);
  if (entry === undefined) {
    book.set(key, { at: countedAtMs, counters, growth: null });
    return null;
  }
  const seconds = (countedAtMs - entry.at) / 1000;
  if (seconds < 0.05) return entry.growth;
  const grown = {};
  for (const [name, value] of Object.entries(counters)) {
    if (value < entry.counters[name]) { // counted from zero again
      book.set(key, { at: countedAtMs, counters, growth: null });
      return null;
    }
    grown[name] = (value - entry.counters[name]) / seconds;
  }
  book.set(key, { at: countedAtMs, counters, growth: grown });
  return grown;
}

function serverGrowth(server, atMs) {
  const key = `${server.server_id}/${server.registered_at_unix_ms}`;
  if (!server.heard || (server.state !== "live" && server.state !== "draining")) {
    books.servers.delete(key);
    return null;
  }
  const load = server.load ?? {};
  return growth(books.servers, key, atMs - count(server.last_heartbeat_age_ms), {
    in: count(load.bytes_in), out: count(load.bytes_out), chunks: count(load.chunks_reduced),
  });
}

function jobGrowth(job, all, atMs) {
  if (!job.load_is_whole || all.live === 0) {
    books.jobs.delete(job.job_id);
    return null;
  }
  return growth(books.jobs, job.job_id, atMs - all.age_ms, { ops: all.ops, pushed: all.pushed, op_time_ns: all.op_time_ns });
}

function keep(list, value) {
  list.push(value);
  if (list.length > KEPT_SAMPLES) list.shift();
}

// ---- drawing ----

// A curve of values, oldest first, up to the right edge.
function draw(svg, values, width, height) {
  const svgNode = (name, options) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(options)) node.setAttribute(key, value);
    return node;
  };
  svg.replaceChildren();
  if (values.length < 2) return;
  const most = Math.max(...values, 1e-9);
  const step = width / (KEPT_SAMPLES - 1);
  const left = width - step * (values.length - 1);
  const points = values.map((value, i) => `${(left + i * step).toFixed(1)},${(height - 2 - (height - 6) * (value / most)).toFixed(1)}`);
  svg.append(
    svgNode("polygon", { class: "area", points: `${left.toFixed(1)},${height} ${points.join(" ")} ${width},${height}` }),
    svgNode("polyline", { class: "curve", points: points.join(" ") }));
}

function plot(id, values, text, what) {
  const svg = byId(id);
  draw(svg, values, 600, 120);
  const now = values.length === 0 ? "" : text(values[values.length - 1]);
  byId(`${id}-now`).textContent = now;
  const most = values.length === 0 ? "" : `, at most ${text(Math.max(...values))}`;
  svg.setAttribute("aria-label", values.length === 0 ? `${what}: not known yet` : `${what}: ${now} now${most} in two minutes`);
}

// Makes the children of `parent` look like `nodes`, each of which has a `data-key` of its own. What has not changed stays the same
// node, so that a selection and a screen reader's place in it last from look to look.
function renew(parent, nodes) {
  const old = new Map([...parent.children].map((node) => [node.dataset.key, node]));
  const wanted = new Set(nodes.map((node) => node.dataset.key));
  for (const [key, node] of old) {
    if (!wanted.has(key)) node.remove();
  }
  let next = parent.firstElementChild;
  for (const node of nodes) {
    const there = old.get(node.dataset.key);
    if (there !== undefined && there === next) next = next.nextElementSibling;
    else parent.insertBefore(there ?? node, next);
    if (there === undefined) continue;
    [...node.children].forEach((part, i) => {
      if (there.children[i].outerHTML !== part.outerHTML) there.children[i].replaceWith(part);
    });
  }
}

// `columns`: names, with a class after a bar; `rows`: arrays of what cells hold, of which the first names the row, and
// `keys` of the rows; `empty`: said instead of rows; `left_out`: said below them, unless it is empty.
function fill(id, columns, rows, keys, empty, left_out = "") {
  const table = byId(id);
  const scroll = table.parentElement;
  const said = scroll.querySelector(".empty");
  table.hidden = rows.length === 0;
  const text = left_out === "" && rows.length === 0 ? empty : left_out;
  if (text === "") said?.remove();
  else if (said === null) scroll.append(make("p", { class: "empty" }, text));
  else if (said.textContent !== text) said.textContent = text;
  const kinds = columns.map((column) => column.split("|"));
  if (table.tHead === null) {
    const head = make("tr");
    for (const [name, kind] of kinds) head.append(make("th", { scope: "col", class: kind ?? "" }, name));
    table.append(make("thead", {}, head), make("tbody"));
  }
  renew(table.tBodies[0], rows.map((row, k) => {
    const line = make("tr", { "data-key": keys[k] });
    row.forEach((content, i) => {
      const cell = i === 0 && kinds[0][1] === undefined ? make("th", { scope: "row" }) : make("td", { class: kinds[i][1] ?? "" });
      cell.append(content);
      line.append(cell);
    });
    return line;
  }));
}

const STATE_CLASS = {
  live: "good", running: "good", draining: "warn", joining: "warn", lost: "bad", failed: "bad", left: "over", ended: "over",
};
const state = (name) => make("span", { class: `state ${STATE_CLASS[name] ?? "over"}` }, name);

// For how long that has been, by the clock of the scheduler that leads.
const since = (cluster, unixMs) => age(Math.max(0, count(cluster.now_unix_ms) - count(unixMs)));

function showOverview(cluster, inPerSecond, opsPerSecond) {
  const lost = cluster.servers_lost;
  const cells = [["Servers live", cluster.servers_live], ["Servers lost", lost, lost > 0 ? "bad" : ""]];
  if (cluster.servers_colocated > 0) cells.push(["Servers colocated", cluster.servers_colocated]);
  cells.push(
    ["Jobs", cluster.jobs], ["Ranks", cluster.workers], ["Into servers", orDash(inPerSecond, (value) => `${bytes(value)}/s`)],
    ["All-reduces", orDash(opsPerSecond, (value) => `${perSecond(value)}/s`)]);
  const troubles = [];
  if ((cluster.save_failure ?? "") !== "") {
    const long = since(cluster, cluster.saves_fail_since_unix_ms);
    cells.push([`Failed saves, for ${long}`, cluster.saves_failed, "bad"]);
    troubles.push(`The state has not been saved for ${long}, so nothing new begins: ${cluster.save_failure}`);
  } else if (count(cluster.newest_save_unix_ms) > 0) {
    const took = `${(count(cluster.newest_save_ns) / 1e6).toFixed(2)} ms`;
    cells.push([`Save of the state, ${since(cluster, cluster.newest_save_unix_ms)} ago`, took]);
  }
  if ((cluster.open_to_network ?? "") !== "") {
    troubles.push(`No certificates (--insecure-network): ${cluster.open_to_network}`);
  }
  for (const refused of cluster.refused_servers ?? []) {
    const ago = age(count(refused.newest_age_ms));
    troubles.push(`Server ${refused.name} on ${refused.node} was refused ${ago} ago: ${refused.reason}`);
  }
  renew(byId("troubles"), troubles.map((text, i) => make("div", { "data-key": String(i) }, make("p", { class: "trouble" }, text))));
  renew(byId("overview"), cells.map(([name, value, kind], i) => make("div", { "data-key": String(i) },
    make("dt", {}, name), make("dd", { class: kind ?? "" }, String(value)))));
  const leads = cluster.leader === "" ? "" : `, the scheduler at ${cluster.leader} leads`;
  byId("cluster").textContent =
    `${cluster.cluster_id}, Shoal ${cluster.software_version}, map epoch ${cluster.epoch}, state in ${cluster.store}${leads}`;
  document.title = `Shoal ${cluster.cluster_id}`;
}

// What is said of servers or jobs that are not shown any more.
function leftOut(number, what) {
  const text = number === 1 ? `1 ${what}` : `${number} ${what}s`;
  return number === 0 ? "" : `${text} gone for more than an hour not shown (shoalctl ${what}s --all shows them)`;
}

function showServers(allServers, allRates) {
  const isShown = (server) =>
    (server.state !== "lost" && server.state !== "left") || count(server.last_heartbeat_age_ms) <= SHOWN_GONE_MS;
  // Those that are there come first.
  const isGone = (server) => Number(server.state === "lost" || server.state === "left");
  const shown = allServers.map((server, i) => ({ server, rate: allRates[i] })).filter(({ server }) => isShown(server));
  shown.sort((left, right) => isGone(left.server) - isGone(right.server));
  const servers = shown.map(({ server }) => server);
  const rates = shown.map(({ rate }) => rate);
  const rows = servers.map((server, i) => {
    const there = server.state === "live" || server.state === "draining";
    const of = (name) => (rates[i] === null ? null : rates[i][name]);
    const used = count(server.load?.slot_memory_used_bytes);
    const all = count(server.slot_memory_bytes);
    const memory = make("span");
    if (there && all > 0) {
      const share = `${Math.round((100 * used) / all)} % of ${bytes(all)}`;
      memory.append(make("meter", { min: 0, max: all, value: used, high: 0.9 * all, "aria-label": `slot memory in use: ${share}` }), share);
    }
    return [server.name, state(server.state), server.node, orDash(of("in"), bytes), orDash(of("out"), bytes),
      orDash(of("chunks"), perSecond), there ? String(server.load?.groups_open ?? 0) : "–",
      there ? String(server.load?.peers ?? 0) : "–", memory,
      `${age(count(server.last_heartbeat_age_ms))} ago`, server.reason];
  });
  fill("servers", ["Server", "State|", "Node|", "In/s|number", "Out/s|number", "Chunks/s|number", "Groups|number", "Peers|number",
    "Slot memory|", "Heartbeat|number", "Reason|text"], rows,
    servers.map((server) => `${server.server_id}/${server.registered_at_unix_ms}`), "No server has registered. Start one with shoal-server.",
    leftOut(allServers.length - servers.length, "server"));
}

// Jobs with live ranks come first; of the others, those that ended last.
function showJobs(cluster, allJobs, allRates) {
  const isShown = ({ totals: all }) => all.live > 0 || all.newest_age_ms <= SHOWN_GONE_MS;
  const rateOf = new Map(allJobs.map(({ job }, i) => [job.job_id, allRates[i]]));
  const goneMs = ({ totals: all }) => (all.live > 0 ? -1 : all.newest_age_ms);
  const jobs = allJobs.filter(isShown).sort((left, right) => goneMs(left) - goneMs(right));
  const rows = jobs.map(({ job, totals: all, slow_rank_nodes: nodes, trouble }) => {
    const rates = rateOf.get(job.job_id);
    const of = (name) => (rates === null ? null : rates[name]);
    const ops = orDash(of("ops"), (value) => perSecond(value / all.live)); // every rank counts an op that all make
    const mean = of("ops") > 0 ? of("op_time_ns") / of("ops") / 1e6 : null;
    const slowest = of("ops") > 0 ? count(job.rates?.percentile_99_op_ns) / 1e6 : 0;
    if (!jobTimes.has(job.job_id)) jobTimes.set(job.job_id, []);
    const times = jobTimes.get(job.job_id);
    if (mean !== null) keep(times, mean);
    const curve = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    curve.setAttribute("viewBox", "0 0 120 28");
    curve.setAttribute("preserveAspectRatio", "none");
    curve.setAttribute("role", "img");
    curve.setAttribute("aria-label", mean === null ? "all-reduce time: not known yet" : `all-reduce time: ${mean.toFixed(2)} ms now`);
    draw(curve, times, 120, 28);
    const said = make("span");
    const on = (node) => (node === "" ? "" : ` on ${node}`);
    const tellSlow = (what, who, slow) => {
      const perOp = count(slow.waited_ns_per_op) > 0 ? `, ${(count(slow.waited_ns_per_op) / 1e6).toFixed(1)} ms an op` : "";
      const wait = `${who} wait ${Math.round(100 * slow.waited_share)} %${perOp} (${slow.cause})`;
      said.append(make("div", { class: "slow" }, `${what} is slow: ${wait}, for ${since(cluster, slow.since_unix_ms)}`));
    };
    (job.slow_ranks ?? []).forEach((slow, k) => tellSlow(`rank ${slow.rank}${on(nodes[k])}`, "others", slow));
    for (const slow of job.slow_servers ?? []) {
      const way = slow.late_rank === undefined ? "" : `the way from rank ${slow.late_rank} to `;
      tellSlow(`${way}server ${slow.name}${on(slow.node)}`, "ranks", slow);
    }
    for (const line of trouble) said.append(make("div", { class: "trouble" }, line));
    const live = job.min_ranks > 0 ? `${all.live}` : `${all.live} of ${job.world_size}`;
    return [job.name, state(job.state), live, ops, orDash(of("pushed"), bytes),
      mean === null ? "–" : `${mean.toFixed(2)} ms`, slowest === 0 ? "–" : `${slowest.toFixed(2)} ms`, curve,
      String(all.groups), said];
  });
  for (const id of [...jobTimes.keys()]) {
    if (!rateOf.has(id)) jobTimes.delete(id);
  }
  fill("jobs", ["Job", "State|", "Ranks|number", "All-reduces/s|number", "Pushed/s|number", "Mean time|number", "p99|number",
    "Last two minutes|", "Groups|number", "What is wrong|text"], rows, jobs.map(({ job }) => job.job_id), "No job has joined.",
    leftOut(allJobs.length - jobs.length, "job"));
}

// The time, with the date unless that is today.
function moment(unixMs) {
  const at = new Date(unixMs);
  return at.toDateString() === new Date().toDateString() ? at.toLocaleTimeString() : at.toLocaleString();
}

// One that is not saved, as of a save that failed, has the number of the event before it: those are counted.
function keysOf(events) {
  const seen = new Map();
  return events.map(({ sequence }) => {
    seen.set(sequence, (seen.get(sequence) ?? 0) + 1);
    return `${sequence}/${seen.get(sequence)}`;
  });
}

function showEvents(all) {
  const keys = keysOf(all).slice(-KEPT_EVENTS).reverse();
  const events = all.slice(-KEPT_EVENTS).reverse();
  const rows = events.map((event) => [moment(count(event.at_unix_ms)), event.kind, event.subject, event.reason]);
  fill("events", ["Time|moment", "Kind|kind", "What|", "Reason|text"], rows, keys,
    "Nothing has happened yet.");
}

function forgetAll() {
  for (const book of Object.values(books)) book.clear();
  for (const curve of Object.values(totals)) curve.length = 0;
  jobTimes.clear();
}

const sum = (values) => values.reduce((all, value) => all + value, 0);

function show(shown) {
  const at = count(shown.at_unix_ms);
  // The curves are of the last two minutes, without gaps.
  if (shownAt !== null && at - shownAt > LONGEST_GAP_MS) forgetAll();
  shownAt = at;
  const serverRates = shown.servers.map((server) => serverGrowth(server, at));
  const jobRates = shown.jobs.map(({ job, totals: all }) => jobGrowth(job, all, at));
  const known = serverRates.filter((each) => each !== null);
  const inPerSecond = known.length > 0 ? sum(known.map((each) => each.in)) : null;
  const ops = shown.jobs.map(({ totals: all }, i) => (jobRates[i] === null ? null : jobRates[i].ops / all.live));
  const knownOps = ops.filter((each) => each !== null);
  const opsPerSecond = knownOps.length > 0 ? sum(knownOps) : null;
  if (inPerSecond !== null) keep(totals.in, inPerSecond);
  if (opsPerSecond !== null) keep(totals.ops, opsPerSecond);
  showOverview(shown.cluster, inPerSecond, opsPerSecond);
  plot("plot-in", totals.in, (value) => `${bytes(value)}/s`, "Gradients into the servers");
  plot("plot-ops", totals.ops, (value) => `${perSecond(value)}/s`, "All-reduces of all jobs");
  showJobs(shown.cluster, shown.jobs, jobRates);
  showServers(shown.servers, serverRates);
  showEvents(shown.events);
}

// Before the first answer.
function showNothing() {
  for (const id of ["jobs", "servers", "events"]) fill(id, ["|"], [], [], "Not known: no scheduler has answered yet.");
  for (const id of ["jobs", "servers", "events"]) byId(id).replaceChildren(); // its columns come with the answer
}

function tell(text, bad) {
  const news = byId("news");
  if (news.textContent !== text) news.textContent = text;
  news.className = bad ? "bad" : "";
}

async function look() {
  if (asking || document.hidden) return;
  asking = true;
  try {
    const answer = await fetch("cluster.json", { signal: AbortSignal.timeout(PATIENCE_MS), cache: "no-store" });
    if (!answer.ok) throw new Error((await answer.text()).trim());
    show(await answer.json());
    heardAt = Date.now();
    tell("Live", false);
  } catch (error) {
    if (heardAt === null) showNothing();
    const since = heardAt === null ? "" : `; what is shown is of ${new Date(heardAt).toLocaleTimeString()}`;
    // The page tries again by itself.
    const said = error.message.replace(/(no scheduler leads at the moment); try again$/,
      "$1; if this lasts, see that most members of its etcd (--store) run and can be reached");
    const why = error instanceof TypeError || error.name === "TimeoutError" ? "the scheduler does not answer" : said;
    tell(`No news: ${why}${since}`, true);
  } finally {
    asking = false;
  }
}

look();
setInterval(look, PERIOD_MS);
document.addEventListener("visibilitychange", look);
