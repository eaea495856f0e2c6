/*
 * The page of firnline in Airflow's UI: all tables ("Tables" in the navigation) and the table of a
 * DAG (a tab of it). Plain JavaScript without a build step, on the React, router and Chakra UI that
 * Airflow shares, so that it follows Airflow's theme and links lead to Airflow's own pages.
 */
const { React, ChakraUI: ui, ReactRouterDOM: router } = globalThis;
const { createElement: h, useCallback, useEffect, useMemo, useState, memo } = React;

const PREFIX = "firnline/api";
const REFRESH_MS = 5_000;
const KIB = 1024;

// --- values as text ---------------------------------------------------------------------------

const number = (value) => (value === null || value === undefined ? "?" : value.toLocaleString("en"));

function size(bytes) {
  let value = bytes;
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (value < KIB - 0.05) return unit === "B" ? `${value} B` : `${value.toFixed(1)} ${unit}`;
    value /= KIB;
  }
  return `${value.toFixed(1)} TiB`;
}

function duration(ms) {
  const steps = [["d", 86_400_000], ["h", 3_600_000], ["min", 60_000], ["s", 1_000]];
  const [unit, length] = steps.find(([, step]) => ms >= step) ?? ["s", 1_000];
  return `${Math.max(0, Math.floor(ms / length))} ${unit}`;
}

const ago = (then, now) => (then ? `${duration(now - then)} ago` : "never");
const date = (ms) => new Date(ms).toISOString().slice(0, 16).replace("T", " ") + " UTC";
const when = (ms, now) => (ms > now ? `in ${duration(ms - now)}` : "now");
const counted = (count, noun) => `${number(count)} ${noun}${count === 1 ? "" : "s"}`;

/** US dollars as `firnline what-if` writes them. */
function usd(value) {
  if (value > 0 && value < 0.001) return "below 0.001 USD";
  const digits = value > 0 && value < 1 ? 3 : 2;
  return `${value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits })} USD`;
}

function dead(figures, now) {
  if (!figures.dead_bytes) return "none";
  if (figures.deletable_bytes) return `${size(figures.dead_bytes)}, ${size(figures.deletable_bytes)} now`;
  return `${size(figures.dead_bytes)}, in ${duration(figures.last_due - now)}`;
}

// --- figures from the server ------------------------------------------------------------------

/**
 * Fetch a path again and again; returns [data, error, missing]. Stale data stays on the screen. What
 * has a version comes whole only when that is another one. What does not exist is asked for once.
 */
function useFigures(path) {
  const [state, setState] = useState({ data: null, error: null });
  useEffect(() => {
    const stop = new AbortController();
    let timer = null;
    let whole = null;
    const load = async () => {
      try {
        const url = new URL(`${PREFIX}/${path}`, document.baseURI);
        if (whole?.version) url.searchParams.set("version", whole.version);
        const answer = await fetch(url, { signal: stop.signal });
        const body = await answer.json().catch(() => ({}));
        if (answer.status === 404) return setState({ data: null, error: body.detail, missing: true });
        if (!answer.ok) throw new Error(body.message ?? body.detail ?? `HTTP ${answer.status}`);
        whole = { ...whole, ...body };
        setState({ data: whole, error: null });
      } catch (error) {
        if (stop.signal.aborted) return;
        setState((old) => ({ ...old, error: error.message }));
      }
      timer = setTimeout(load, REFRESH_MS);
    };
    load();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [path]);
  return [state.data, state.error, Boolean(state.missing)];
}

// --- pieces -----------------------------------------------------------------------------------

const palette = (score) => (score === null ? "gray" : score >= 80 ? "green" : score >= 50 ? "yellow" : "red");

const Score = ({ score }) =>
  h(ui.Badge, { colorPalette: palette(score), size: "lg", "data-testid": "score" }, score === null ? "…" : score);

const Problem = ({ text }) =>
  h(ui.Alert.Root, { status: "error", mb: 4 }, h(ui.Alert.Indicator), h(ui.Alert.Title, null, text));

const Link = ({ to, children }) => h(ui.Link, { asChild: true, color: "fg.info" }, h(router.Link, { to }, children));

const HELD = "Rows that nothing may remove until a person ends the hold";

const runColour = (run) => ({ success: "green", failed: "red", running: "blue" })[run.state] ?? "gray";

/** Path of the page on a table: a tab of a DAG, which is told the table if it is for all of them. */
const tablePath = (row) => `/dags/${row.dag}/plugin/firnline-table${row.dag.includes("__") ? "" : `?${new URLSearchParams({ table: row.table })}`}`;

/** DAG and configuration of a run of an operation: in the table's own DAG if it has one. */
const runOf = ({ table, own }, operation, conf) =>
  own.includes(operation) ? { dagId: `${operation}__${table}`, conf } : { dagId: operation, conf: { table, ...conf } };

function Run({ run, now }) {
  if (!run) return h(ui.Text, { color: "fg.muted" }, "never");
  return h(Link, { to: runPath(run.dag_id, run.run_id) },
    h(ui.Badge, { colorPalette: runColour(run) }, run.state),
    run.ended_ms && h(ui.Text, { as: "span", color: "fg.muted", fontSize: "xs", ml: 1 }, ago(run.ended_ms, now)));
}

/** Pairs of a lock and a task that holds it; several merges may hold one. */
const heldBy = (holders) => Object.entries(holders).flatMap(([lock, tasks]) => tasks.map((by) => [lock, by]));

function Lock({ holders, now }) {
  const held = heldBy(holders);
  if (!held.length) return h(ui.Text, { color: "fg.muted" }, "free");
  return held.map(([lock, by]) => h(ui.Box, { key: `${lock} ${by.dag_id} ${by.run_id}`, title: by.since_ms ? `since ${date(by.since_ms)}` : "" },
    h(Link, { to: `/dags/${by.dag_id}/runs/${encodeURIComponent(by.run_id)}` }, `${lock}: ${by.dag_id.split("__")[0]}`),
    h(ui.Text, { as: "span", color: "fg.muted", fontSize: "xs", ml: 1 }, by.since_ms ? `for ${duration(now - by.since_ms)}` : "queued")));
}

const SILENT_MS = 10_000;

/** What is to be said of the figures themselves: not there yet, old, or from a store that is away. */
function freshness(row) {
  const age = row.age_ms === null ? null : `figures of ${duration(row.age_ms)} ago`;
  if (row.waiting_ms > SILENT_MS) return [`its store has not answered for ${duration(row.waiting_ms)}`, age].filter(Boolean).join(", ");
  if (row.problem) return age ?? "it has not been read yet";
  return age === null ? "being read …" : "";
}

// --- all tables -------------------------------------------------------------------------------

const COLUMNS = [
  ["table", "Table", (row) => row.table],
  ["score", "Score", (row) => row.score ?? -1],
  ["parts", "Parts", (row) => row.figures?.parts ?? -1],
  ["bytes", "Size", (row) => row.figures?.bytes ?? -1],
  ["merge", "To merge", (row) => row.figures?.merge_parts ?? -1],
  ["saved", "Requests saved", (row) => (row.figures ? row.figures.merge_parts - row.figures.merge_outputs : -1)],
  ["dead", "Dead", (row) => row.figures?.dead_bytes ?? -1],
  ["last", "Last merge", (row) => row.figures?.last.merge?.t ?? 0],
  ["verify", "Verify", (row) => row.airflow.runs.verify?.state ?? ""],
  ["lock", "Lock", (row) => heldBy(row.airflow.holders).length],
  ["asks", "Waits for you", (row) => row.airflow.questions],
];

const COLOURS = ["green", "yellow", "red", "blue", "gray"];

/** Styles of the rows. A thousand of them are plain elements: Chakra's own take ten times as long. */
const ROWS = {
  "& tbody td": { px: 2, py: 2, whiteSpace: "nowrap", borderBottomWidth: "1px" },
  "& tbody td:first-of-type": { whiteSpace: "normal" },
  "& tbody tr:nth-of-type(odd) td": { bg: "bg.muted" },
  "& .away": { opacity: 0.7 },
  "& .muted": { color: "fg.muted" },
  "& .small": { fontSize: "xs", color: "fg.muted" },
  "& .said": { fontSize: "xs", color: "fg.muted", lineClamp: 2 },
  "& a": { color: "fg.info" },
  "& a:hover": { textDecoration: "underline" },
  "& .badge": { px: 1.5, py: 0.5, borderRadius: "sm", fontSize: "xs", fontWeight: "medium" },
  "& .held": { ml: 2, whiteSpace: "nowrap" },
  "& .score": { px: 2.5, py: 1, fontSize: "sm" },
  ...Object.fromEntries(COLOURS.map((name) => [`& .${name}`, { bg: `${name}.subtle`, color: `${name}.fg` }])),
};

const span = (className, ...content) => h("span", { className }, ...content);
const runPath = (dagId, runId) => `/dags/${dagId}/runs/${encodeURIComponent(runId)}`;

function lockCell(holders, now) {
  const held = heldBy(holders);
  if (!held.length) return span("muted", "free");
  return held.map(([lock, by]) => h("div", { key: `${lock} ${by.dag_id} ${by.run_id}`, title: by.since_ms ? `since ${date(by.since_ms)}` : "" },
    h(router.Link, { to: runPath(by.dag_id, by.run_id) }, `${lock}: ${by.dag_id.split("__")[0]}`),
    span("small", by.since_ms ? ` for ${duration(now - by.since_ms)}` : " queued")));
}

function runCell(run, now) {
  if (!run) return span("muted", "never");
  return h(React.Fragment, null, h(router.Link, { to: runPath(run.dag_id, run.run_id) }, span(`badge ${runColour(run)}`, run.state)),
    run.ended_ms && span("small", ` ${ago(run.ended_ms, now)}`));
}

const Row = memo(({ row, now }) => {
  const { figures, airflow } = row;
  const said = [row.reasons[0]?.text, freshness(row)].filter(Boolean).join("; ");
  const known = (show) => h("td", null, figures === null ? "?" : show(figures));
  return h("tr", { "data-testid": "table", className: row.problem ? "away" : "", title: row.reasons.map((one) => `−${one.points} ${one.text}`).join("\n") },
    h("td", null, h(router.Link, { to: tablePath(row) }, row.table),
      figures?.holds ? h("span", { className: "badge blue held", title: HELD, "data-testid": "held" }, counted(figures.holds, "legal hold")) : null,
      h("div", { className: "said" }, said)),
    h("td", null, h("span", { className: `badge score ${palette(row.score)}`, "data-testid": "score" }, row.score === null ? "…" : row.score)),
    known((f) => number(f.parts)),
    known((f) => size(f.bytes)),
    known((f) => (f.merge_parts ? `${number(f.merge_parts)} → ${number(f.merge_outputs)}` : "none")),
    known((f) => number(f.merge_parts - f.merge_outputs)),
    known((f) => dead(f, now)),
    known((f) => ago(f.last.merge?.t, now)),
    h("td", null, runCell(airflow.runs.verify, now)),
    h("td", null, lockCell(airflow.holders, now)),
    h("td", null, airflow.questions ? h(router.Link, { to: "/required_actions?response_received=false" }, counted(airflow.questions, "question")) : ""));
}, (before, after) => before.row === after.row && Math.floor(before.now / 60_000) === Math.floor(after.now / 60_000));

/** Keep the objects of rows that have not changed, so that only changed rows are drawn again. */
function useSameRows(rows) {
  const [kept] = useState(() => new Map());
  return useMemo(() => rows.map((row) => {
    const { age_ms: _, waiting_ms: __, looked_ms: ___, ...figures } = row;
    const text = JSON.stringify([figures, freshness(row)]);
    const old = kept.get(row.table);
    if (old?.text === text) return old.row;
    kept.set(row.table, { text, row });
    return row;
  }), [rows]);
}

function Fleet({ show }) {
  const [data, error] = useFigures("fleet");
  const [search, setSearch] = useState("");
  const [order, setOrder] = useState({ by: "score", down: false });
  const rows = useSameRows(data?.tables ?? []);
  const shown = useMemo(() => {
    const value = COLUMNS.find(([key]) => key === order.by)[2];
    const wanted = search.trim().toLowerCase();
    const found = rows.filter((row) => !wanted || row.table.toLowerCase().includes(wanted) || row.root.toLowerCase().includes(wanted));
    const compare = (a, b) => (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : a.table < b.table ? -1 : 1);
    return found.sort((a, b) => (order.down ? compare(b, a) : compare(a, b)));
  }, [rows, search, order]);
  const sort = useCallback((by) => setOrder((old) => ({ by, down: old.by === by ? !old.down : by !== "table" && by !== "score" })), []);
  if (data === null && error === null) return h(ui.Box, { p: 6 }, h(ui.Spinner), " Reading …");
  const ages = rows.length ? (data.tables ?? []).map((row) => row.age_ms).filter((age) => age !== null) : [];
  const away = (data?.tables ?? []).filter((row) => row.problem).length;
  const waiting = (data?.tables ?? []).filter((row) => row.age_ms === null && !row.problem).length;
  const told = [
    counted(rows.length, "table"),
    ages.length ? `figures up to ${duration(Math.max(...ages))} old` : "",
    away ? `${counted(away, "table")} that cannot be read` : "",
    waiting ? `${counted(waiting, "table")} being read` : "",
    data?.refreshing ? "refreshing …" : "",
  ].filter(Boolean).join(", ");
  return h(ui.Box, { p: 6, overflow: "auto", height: "100%" },
    h(ui.Heading, { size: "xl", mb: 2 }, "Tables"),
    data?.erasures && h(Views, { view: "tables", summary: data.erasures, show }),
    error && h(Problem, { text: `The figures could not be read: ${error}` }),
    data?.warning && h(Problem, { text: data.warning }),
    h(ui.Flex, { gap: 4, mb: 4, align: "center" },
      h(ui.Input, { "aria-label": "Search tables", maxW: "sm", placeholder: "Search tables", value: search, onChange: (event) => setSearch(event.target.value) }),
      h(ui.Text, { color: "fg.muted" }, told)),
    h(ui.Table.Root, { size: "sm", stickyHeader: true, css: ROWS },
      h(ui.Table.Header, null, h(ui.Table.Row, null, COLUMNS.map(([key, title]) =>
        h(ui.Table.ColumnHeader, { key, "aria-sort": order.by !== key ? "none" : order.down ? "descending" : "ascending" },
          h(ui.Button, { variant: "ghost", size: "xs", px: 0, onClick: () => sort(key) }, title, order.by === key ? (order.down ? " ▾" : " ▴") : ""))))),
      h(ui.Table.Body, null, shown.map((row) => h(Row, { key: row.table, row, now: data.now_ms })))),
    rows.length === 0 && error === null && h(ui.Text, { mt: 4 }, "The settings file has no table that you may see."));
}

/** The two views of the page. Without a folder of requests there is one, and nothing to choose. */
function Views({ view, summary, show }) {
  const [colour, text] = pressing(summary);
  return h(ui.Tabs.Root, { value: view, onValueChange: ({ value }) => show(value), mb: 4 },
    h(ui.Tabs.List, null,
      h(ui.Tabs.Trigger, { value: "tables" }, "All tables"),
      h(ui.Tabs.Trigger, { value: "erasures" }, "Erasure requests", text && h(ui.Badge, { colorPalette: colour, "data-testid": "pressing" }, text))));
}

function Tables() {
  const [asked, setAsked] = router.useSearchParams();
  const show = useCallback((view) => setAsked(view === "tables" ? {} : { view }), [setAsked]);
  return asked.get("view") === "erasures" ? h(Requests, { show }) : h(Fleet, { show });
}

// --- requests of erasure ------------------------------------------------------------------------

const ERASE_PERSON = "erase_person";

/** What is most pressing of the requests, as [colour, text]. */
function pressing({ problem, overdue, soon, open }) {
  if (problem) return ["red", "cannot be read"];
  if (overdue) return ["red", `${number(overdue)} overdue`];
  if (soon) return ["yellow", `${number(soon)} due soon`];
  return ["gray", open ? `${number(open)} open` : ""];
}

/** State of a request in a table -> [colour, text], those first that somebody has to look at. */
const REACHED = {
  gone: ["red", "table is gone"],
  unread: ["red", "cannot be read"],
  refused: ["red", "refused"],
  held: ["orange", "legal hold"],
  "to do": ["blue", "to be erased"],
  later: ["blue", "with a later run"],
  waiting: ["yellow", "erased"],
  complete: ["green", "certified"],
  "no key": ["gray", "no key for it"],
  "left out": ["gray", "left out"],
};

/** A table that leads to its page, with its certificate; one that is gone has none. */
function Certified({ one }) {
  const query = one.dag?.includes("__") ? "" : `?${new URLSearchParams({ table: one.table })}`;
  const url = new URL(`${PREFIX}/tables/${one.dag}/certificates/${one.certificate}${query}`, document.baseURI);
  return h(React.Fragment, null,
    one.dag ? h(Link, { to: tablePath(one) }, one.table) : one.table,
    one.dag && one.certificate && h(React.Fragment, null, " (", h(ui.Link, { href: url.href, download: true, color: "fg.info", title: one.certificate }, "certificate"), ")"));
}

const inOrder = (parts) => parts.flatMap((part, at) => (at ? [", ", part] : [part]));
const certified = (tables) => inOrder(tables.map((one) => h(Certified, { key: one.table, one })));

/** Tables of a request that are in one state for one reason, on one line. */
function Together({ tables, now }) {
  const [{ state, why, ripe_ms: ripe }] = tables;
  const [colour, text] = REACHED[state];
  const until = state === "waiting" && ripe > now ? `certified from ${date(ripe)} on` : "";
  const said = state === "unread" ? "" : why || until; // why it cannot be read is said once, above
  return h(ui.Flex, { columnGap: 3, rowGap: 0.5, mt: 2, align: "start", direction: { base: "column", md: "row" }, fontSize: "sm", "data-testid": "reached" },
    h(ui.Badge, { colorPalette: colour, flexShrink: 0, minW: "28", justifyContent: "center" }, text),
    h(ui.Box, { minW: 0, overflowWrap: "anywhere" }, certified(tables),
      said && h(ui.Text, { as: "span", color: "fg.muted" }, ": ", said)));
}

/** Tables by their state and the reason, the pressing ones first. */
function together(tables) {
  const groups = new Map();
  for (const one of tables) {
    const key = JSON.stringify([one.state, one.why, one.ripe_ms]);
    groups.set(key, [...(groups.get(key) ?? []), one]);
  }
  const order = Object.keys(REACHED);
  return [...groups.values()].sort(([a], [b]) => order.indexOf(a.state) - order.indexOf(b.state));
}

const DUE = { overdue: "red", soon: "yellow", "": "gray" };

/** What is known of a request whatever became of it. */
function Asked({ one }) {
  const text = [`received ${date(one.received_ms)}`, `due ${date(one.due_ms)}`, one.taken_by && `taken by ${one.taken_by}`, `${counted(one.keys, "key")} of ${one.columns.join(", ")}`];
  return h(ui.Text, { fontSize: "xs", color: "fg.muted" }, one.reference && h(React.Fragment, null, h(ui.Code, { size: "xs" }, one.id), ", "), text.filter(Boolean).join(", "));
}

function OpenRequest({ one, now }) {
  const counts = one.tables === null ? "its tables are being read …" : `erased from ${number(one.erased)} of ${counted(one.of, "table")}, certified in ${number(one.certified)}`;
  return h(ui.Box, { borderWidth: 1, borderLeftWidth: 4, borderLeftColor: `${DUE[one.urgency]}.solid`, borderRadius: "md", p: 3, mb: 3, "data-testid": "erasure" },
    h(ui.Flex, { gap: 2, wrap: "wrap", align: "center", mb: 1 },
      h(ui.Text, { fontWeight: "bold", overflowWrap: "anywhere" }, one.reference || one.id),
      h(ui.Badge, { colorPalette: DUE[one.urgency] }, one.due),
      one.state && h(ui.Badge, { colorPalette: one.state === "waiting" ? "yellow" : "blue" }, one.state === "waiting" ? "waits for its certificates" : "open"),
      h(ui.Text, { fontSize: "sm", color: "fg.muted" }, counts)),
    h(Asked, { one }),
    one.tables && together(one.tables).map((tables) => h(Together, { key: `${tables[0].state} ${tables[0].table}`, tables, now })),
    one.tables && one.certified === one.of && h(ui.Text, { mt: 2, fontSize: "sm" }, "Nothing is left to do: the next run closes it, and deletes its keys."),
    one.hidden > 0 && h(ui.Text, { mt: 2, fontSize: "sm", color: "fg.muted" }, `${counted(one.hidden, "table")} that you may not see.`));
}

function ClosedRequest({ one }) {
  const outside = [
    one.hidden > 0 && `${counted(one.hidden, "table")} that you may not see`,
    one.without.length > 0 && `left out: ${one.without.join(", ")}`,
    one.unstated.length > 0 && `nobody has said whether it has rows of people: ${one.unstated.join(", ")}`,
  ].filter(Boolean);
  const muted = { fontSize: "sm", mt: 1, overflowWrap: "anywhere", color: "fg.muted" };
  return h(ui.Box, { borderWidth: 1, borderRadius: "md", p: 3, mb: 3, "data-testid": "closed" },
    h(ui.Flex, { gap: 2, wrap: "wrap", align: "center", mb: 1 },
      h(ui.Text, { fontWeight: "bold", overflowWrap: "anywhere" }, one.reference || one.id),
      h(ui.Badge, { colorPalette: one.state === "done" ? "green" : "gray" }, one.state),
      one.late && h(ui.Badge, { colorPalette: "red" }, "late"),
      h(ui.Text, { fontSize: "sm", color: "fg.muted" }, `${date(one.closed_ms)}${one.closed_by ? ` by ${one.closed_by}` : ""}`)),
    h(Asked, { one }),
    one.withdrawn && h(ui.Text, { fontSize: "sm", mt: 1 }, `Why: ${one.withdrawn}`),
    one.tables.length > 0 && h(ui.Text, { fontSize: "sm", mt: 1, overflowWrap: "anywhere" }, "Certified: ", certified(one.tables)),
    outside.length > 0 && h(ui.Text, muted, `Not certified here: ${outside.join("; ")}`),
    one.state === "done" && h(ui.Text, muted, "All that proves it: ", one.bundle && h(React.Fragment, null, h(ui.Link, { href: new URL(`${PREFIX}/erasures/${one.id}/bundle`, document.baseURI).href, download: true, color: "fg.info" }, "bundle"), ", or "), h(ui.Code, { size: "xs" }, `firnline erasure bundle ${one.id} FOLDER`)));
}

/** A list that is cut says so. */
const rest = (count, shown, what) => count > shown && h(ui.Text, { fontSize: "sm", color: "fg.muted" }, `${number(count - shown)} more ${what}.`);

function ClosedRequests({ closed, count }) {
  if (!closed.length) return h(Section, { title: "Closed" }, h(ui.Text, { color: "fg.muted" }, "No request is closed yet."));
  return h(Section, { title: "Closed", note: "the newest first; their keys are deleted" },
    closed.map((one) => h(ClosedRequest, { key: one.id, one })),
    rest(count, closed.length, "were closed before"));
}

function OpenRequests({ requests, count, now }) {
  return h(Section, { title: "Open", note: requests.length > 1 ? "those that are due first before the others" : "" },
    !requests.length && h(ui.Text, { color: "fg.muted" }, "No request is open. ", h(ui.Code, null, "firnline erasure ask FILE"), " takes one."),
    requests.map((one) => h(OpenRequest, { key: one.id, one, now })),
    rest(count, requests.length, "are due later"));
}

/** How old all of it is, and how many there are. */
function requestsTold({ summary, age_ms: age, tables_age_ms: tables, refreshing, folder }) {
  const due = [summary.overdue && `${number(summary.overdue)} overdue`, summary.soon && `${number(summary.soon)} due soon`].filter(Boolean);
  return [
    `${number(summary.open)} open${due.length ? ` (${due.join(", ")})` : ""}`,
    `${number(summary.closed)} closed`,
    `in ${folder} as of ${duration(age)} ago`,
    tables !== null && summary.open ? `tables as of ${duration(tables)} ago` : "",
    refreshing ? "refreshing …" : "",
  ].filter(Boolean).join(", ");
}

/** What of the requests cannot be read, and why. */
function RequestProblems({ data }) {
  const { summary, tables_problem: tables, age_ms: age, waiting_ms: waiting, unread, away } = data;
  const old = age === null ? "" : ` What is shown is ${duration(age)} old.`;
  return h(React.Fragment, null,
    summary.problem && h(Problem, { text: `The folder of requests ${data.folder} cannot be read: ${summary.problem}.${old}` }),
    waiting > SILENT_MS && h(Problem, { text: `The store of ${data.folder} has not answered for ${duration(waiting)}.${old}` }),
    tables && h(Problem, { text: `The tables could not be looked at: ${tables}.` }),
    unread.map((why) => h(Problem, { key: why, text: `A request does not read: ${why}.` })),
    away.length > 0 && h(ui.Alert.Root, { status: "warning", mb: 4, "data-testid": "away" }, h(ui.Alert.Indicator), h(ui.Alert.Content, { minW: 0, overflowWrap: "anywhere" },
      h(ui.Alert.Title, null, `${counted(away.length, "table")} cannot be read, and may have rows of these people`),
      h(ui.Alert.Description, null, away.slice(0, MOST_AWAY).map((one) => h(ui.Text, { key: one.table, mt: 1 }, h("b", null, one.table), `: ${one.why}`)), rest(away.length, MOST_AWAY, "tables")))));
}

const MOST_AWAY = 10;

/** Requests of people to be erased: open, due and closed. */
function Erasures({ data, error }) {
  if (data === null && error === null) return h(ui.Box, null, h(ui.Spinner), " Reading …");
  const failed = error && h(Problem, { text: `The requests could not be read: ${error}` });
  if (data === null) return failed;
  if (!data.set) return h(ui.Text, { "data-testid": "no-erasures" }, "No requests of erasure are taken: the settings name no folder for them, such as ", h(ui.Code, null, "erasure: {requests: s3://bucket/erasures}"), ".");
  const { requests, closed, summary, unstated, people, run, now_ms: now } = data;
  const muted = { mt: 2, fontSize: "sm", color: "fg.muted" };
  return h(ui.Box, { "data-testid": "erasures" },
    failed,
    h(RequestProblems, { data }),
    requests === null ? !summary.problem && h(ui.Box, null, h(ui.Spinner, { size: "sm", mr: 2 }), "Reading …") : h(React.Fragment, null,
      h(ui.Text, { color: "fg.muted", overflowWrap: "anywhere" }, requestsTold(data)),
      people === 0 ? h(ui.Text, { mt: 3 }, "Nothing can be erased: no table of the settings names the columns of a person, such as ", h(ui.Code, null, "person: [customer_id]"), ".") : h(ui.Flex, { gap: 2, mt: 3, align: "center", wrap: "wrap" },
        h(Start, { dagId: ERASE_PERSON, conf: { dry_run: true } }, "Plan a run"),
        h(Start, { dagId: ERASE_PERSON, conf: {}, asks: true, title: "The run asks for one approval for all tables" }, "Run …"),
        h(Link, { to: `/dags/${ERASE_PERSON}` }, "Its runs")),
      h(OpenRequests, { requests, count: summary.open, now }),
      requests.length > 0 && h(ui.Text, muted, "This page reads no keys. Whether a legal hold or a key itself is in the way is known from ",
        run ? h(React.Fragment, null, h(Link, { to: runPath(ERASE_PERSON, run.run_id) }, "the newest run"), `, ${ago(run.now_ms, now)}.`) : `runs of ${ERASE_PERSON}; there was none yet.`),
      unstated.length > 0 && h(ui.Text, muted, `Not looked at, because nobody has said whether there are rows of people: ${unstated.slice(0, 10).join(", ")}${unstated.length > 10 ? ` and ${number(unstated.length - 10)} more` : ""}. Write `, h(ui.Code, null, "person: [column]"), " into their settings, or ", h(ui.Code, null, "person: []"), "."),
      h(ClosedRequests, { closed, count: summary.closed })));
}

/** The view of the page, or the tab of the DAG that carries them out. */
function Requests({ show }) {
  const [data, error] = useFigures("erasures");
  return h(ui.Box, { p: 6, overflow: "auto", height: "100%" },
    show && h(ui.Heading, { size: "xl", mb: 2 }, "Tables"),
    show && h(Views, { view: "erasures", summary: data?.summary ?? {}, show }),
    h(Erasures, { data, error }));
}

// --- one table --------------------------------------------------------------------------------

const Tile = ({ title, value, note, hint }) =>
  h(ui.Stat.Root, { title: hint ?? "", borderWidth: 1, borderRadius: "md", p: 4, minW: "44", flex: "1" },
    h(ui.Stat.Label, null, title), h(ui.Stat.ValueText, null, value), note && h(ui.Stat.HelpText, null, note));

const Section = ({ title, note, children }) =>
  h(ui.Box, { mt: 8 }, h(ui.Heading, { size: "md", mb: 2 }, title,
    note && h(ui.Text, { as: "span", color: "fg.muted", fontSize: "sm", ml: 3, fontWeight: "normal" }, note)), children);

/** Ask Airflow's API as the user; throws a sentence. */
async function airflow(path, options) {
  const answer = await fetch(new URL(`api/v2/${path}`, document.baseURI), options);
  const body = await answer.json().catch(() => ({}));
  if (answer.ok) return body;
  const dagId = path.split("/")[1];
  if (answer.status === 403) throw new Error(`You may not ${options ? "start" : "read"} runs of ${dagId}: Airflow's permissions for this DAG are missing.`);
  if (answer.status === 404) throw new Error(`Airflow has no such DAG or run: ${path.split("?")[0]}`);
  throw new Error(typeof body.detail === "string" ? body.detail : `Airflow answered with HTTP ${answer.status}.`);
}

/** Start a run of a DAG as the user; resolves to the run's id. */
async function trigger(dagId, conf) {
  const body = await airflow(`dags/${dagId}/dagRuns`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ logical_date: null, conf, note: "started from the page of the table" }),
  });
  return body.dag_run_id;
}

const sleep = (ms) => new Promise((wake) => setTimeout(wake, ms));
const ASK_MS = 1_000;

/**
 * Wait until a run has ended, or `ready(run path)` resolves to a value; resolves to [state, value].
 * `tell` is told what it waits for.
 */
async function follow(dagId, runId, tell, isGone, ready) {
  const path = `dags/${dagId}/dagRuns/${encodeURIComponent(runId)}`;
  while (!isGone()) {
    const { state } = await airflow(path);
    const value = ready ? await ready(path) : null;
    if (value || state === "success" || state === "failed") return [state, value];
    const paused = state === "queued" && (await airflow(`dags/${dagId}`)).is_paused;
    tell(paused ? `The DAG ${dagId} is paused: the run waits until somebody switches it on.` : `The run is ${state} …`);
    await sleep(ASK_MS);
  }
  return [null, null];
}

/** Says whether its component is gone: nothing may lead away from a page that was left. */
function useGone() {
  const [gone] = useState(() => ({ now: false }));
  useEffect(() => {
    gone.now = false;
    return () => { gone.now = true; };
  }, []);
  return useCallback(() => gone.now, []);
}

/** A button that starts a run and leads to it. With `asks` it waits for the run's question and leads there. */
function Start({ dagId, conf, asks, children, ...props }) {
  const navigate = router.useNavigate();
  const isGone = useGone();
  const [state, setState] = useState({ busy: false, error: null, told: null });
  const start = async () => {
    setState({ busy: true, error: null, told: null });
    try {
      const runId = await trigger(dagId, conf);
      if (!asks) return navigate(runPath(dagId, runId));
      const question = async (path) => (await airflow(`${path}/hitlDetails?response_received=false`)).total_entries > 0;
      const [ended, asked] = await follow(dagId, runId, (told) => setState({ busy: true, error: null, told, runId }), isGone, question);
      if (asked) navigate(`${runPath(dagId, runId)}/required_actions`);
      else if (ended) navigate(runPath(dagId, runId));
    } catch (error) {
      if (!isGone()) setState({ busy: false, error: error.message, told: null });
    }
  };
  return h(React.Fragment, null,
    h(ui.Button, { size: "xs", variant: "outline", loading: state.busy, onClick: start, ...props }, children),
    state.told && h(ui.Text, { fontSize: "sm" }, state.told, " ", h(Link, { to: runPath(dagId, state.runId) }, "Its run")),
    state.error && h(ui.Text, { color: "fg.error", fontSize: "sm", role: "alert" }, state.error));
}

const listed = (numbers) => (numbers.length < 2 ? numbers.join("") : `${numbers.slice(0, -1).join(", ")} and ${numbers.at(-1)}`);
const amount = (found) => `${counted(found.parts, "part")} of ${number(found.rows)} rows (${size(found.bytes)})`;

/** A restore of a whole table: first a dry run, whose result is shown, then what the user confirms. */
function Restore({ table, to, close }) {
  const dagId = "restore";
  const isGone = useGone();
  const conf = { table, to, partitions: ["*"] };
  const [state, setState] = useState({ told: "Planning …" });
  useEffect(() => {
    (async () => {
      try {
        const runId = await trigger(dagId, { ...conf, dry_run: true });
        const [ended] = await follow(dagId, runId, (told) => setState({ runId, told }), isGone);
        if (ended === null) return;
        const path = `dags/${dagId}/dagRuns/${encodeURIComponent(runId)}`;
        if (ended === "failed") {
          const said = ((await airflow(path)).note ?? "").split("\n\n").filter((text) => text.startsWith("firnline: ")).at(-1);
          return setState({ runId, error: said?.replace("firnline: ", "") ?? "The dry run has failed: its log says why." });
        }
        const { value } = await airflow(`${path}/taskInstances/plan/xcomEntries/return_value?stringify=false`);
        setState({ runId, plan: value });
      } catch (error) {
        if (!isGone()) setState({ error: error.message });
      }
    })();
  }, [table, to]);
  const { plan, told, error, runId } = state;
  const count = plan ? plan.undone_in_all ?? plan.undone.length : 0;
  const nothing = plan && !plan.restored.parts && !plan.removed.parts;
  const undone = plan && `${count === 1 ? "transaction" : "transactions"} ${listed(plan.undone)}${count > plan.undone.length ? ` and ${number(count - plan.undone.length)} more` : ""}`;
  return h(ui.Box, { p: 3, mb: 3, borderWidth: 1, borderRadius: "md", "data-testid": "restore" },
    h(ui.Text, { fontWeight: "bold" }, `Restore all of ${table} to transaction ${to}`),
    told && h(ui.Text, null, h(ui.Spinner, { size: "xs", mr: 2 }), told),
    error && h(ui.Text, { color: "fg.error", role: "alert" }, error),
    nothing && h(ui.Text, null, "The dry run found nothing to do."),
    plan && !nothing && h(React.Fragment, null,
      h(ui.Text, null, `The dry run, as of transaction ${plan.seq}: it would undo ${undone} in ${counted(plan.partitions_in_all ?? plan.partitions.length, "partition")}.`),
      h(ui.Text, null, `Comes back: ${amount(plan.restored)}. Goes: ${amount(plan.removed)}. Rows that were appended since stay.`),
      h(ui.Text, { color: "fg.muted", fontSize: "sm" }, "Nobody else is asked. If another transaction changes these partitions before it runs, nothing is restored. A restore can be undone like any other transaction.")),
    h(ui.Flex, { gap: 2, mt: 2, align: "center" },
      plan && !nothing && h(Start, { dagId, conf: { ...conf, newest: plan.seq, dry_run: false }, colorPalette: "red", variant: "solid" }, `Undo ${undone} of ${table}`),
      h(ui.Button, { size: "xs", variant: "outline", onClick: close }, plan && !nothing ? "Leave it as it is" : "Close"),
      runId && h(Link, { to: runPath(dagId, runId) }, "The dry run")));
}

/** A partition's name as a glob that matches it alone. */
const globOf = (partition) => partition.replace(/[*?[]/g, "[$&]");

const SHADES = ["green.subtle", "yellow.subtle", "orange.muted", "orange.emphasized", "red.solid"];
const shade = (one) => SHADES[one.merge < 2 ? 0 : Math.min(SHADES.length - 1, 1 + Math.floor(Math.log10(one.merge)))];

/** What a shade says without its colour. */
const mark = (one) => (one.merge < 2 ? "" : one.merge < 10 ? one.merge : "+");

const STEPS = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 20, ArrowUp: -20, Home: -Infinity, End: Infinity };

/** The map of partitions, for mouse and keyboard. Only its frame is drawn again when one is picked. */
function Cells({ partitions, at, pick }) {
  const cells = useMemo(() => partitions.map((one, index) => {
    const said = `${one.partition || "(none)"}: ${counted(one.parts, "part")}, ${size(one.bytes)}, ${number(one.merge)} to merge`;
    return h(ui.Box, {
      key: one.partition, id: `partition-${index}`, role: "option", boxSize: "14px", bg: shade(one), borderRadius: "2px", cursor: "pointer",
      fontSize: "9px", lineHeight: "14px", textAlign: "center", userSelect: "none", "data-at": index, "data-testid": "partition", title: said, "aria-label": said,
    }, mark(one));
  }), [partitions]);
  const onKeyDown = (event) => {
    if (!(event.key in STEPS)) return;
    event.preventDefault();
    const next = Math.min(partitions.length - 1, Math.max(0, at === null ? 0 : at + STEPS[event.key]));
    pick(next);
    document.getElementById(`partition-${next}`)?.scrollIntoView({ block: "nearest" });
  };
  return h(ui.Flex, {
    wrap: "wrap", gap: "2px", p: "2px", maxH: "60", overflow: "auto", tabIndex: 0, role: "listbox", "aria-label": "Partitions", "aria-activedescendant": at === null ? undefined : `partition-${at}`,
    css: at === null ? {} : { [`& > :nth-of-type(${at + 1})`]: { outline: "2px solid currentcolor" } },
    onClick: (event) => pick(event.target.dataset.at), onKeyDown,
  }, cells);
}

function Rewrite({ on, partition }) {
  const [where, setWhere] = useState("");
  const condition = where.trim();
  return h(ui.Flex, { gap: 2, mt: 2, align: "center", wrap: "wrap" },
    h(ui.Input, { "aria-label": "Rows that stay", size: "xs", maxW: "sm", placeholder: "rows that stay, such as k is not null", value: where, onChange: (event) => setWhere(event.target.value) }),
    h(Start, { ...runOf(on, "rewrite_partitions", { partitions: [globOf(partition)], where: condition, dry_run: true }), disabled: !condition }, "Plan its rewrite"));
}

function Partitions({ detail, on }) {
  const { table, operations } = on;
  const [at, setAt] = useState(null);
  const pick = useCallback((index) => index !== undefined && setAt(Number(index)), []);
  const one = at === null ? null : detail.partitions[at];
  return h(Section, { title: "Partitions", note: `${number(detail.partition_count)}; the redder, the more parts wait for a merge (their number, + from ten on). Arrow keys go from one to the next` },
    h(Cells, { partitions: detail.partitions, at, pick }),
    one && h(ui.Box, { mt: 3, p: 3, borderWidth: 1, borderRadius: "md", "data-testid": "picked" },
      h(ui.Text, { fontWeight: "bold" }, one.partition || "(none)"),
      h(ui.Text, null, `${counted(one.parts, "part")}, ${number(one.rows)} rows, ${size(one.bytes)}; ${number(one.merge)} to merge`),
      Object.entries(one.left_alone).map(([why, count]) => h(ui.Text, { key: why, color: "fg.muted" }, `${counted(count, "part")} left alone: ${why}`)),
      h(ui.Flex, { gap: 2, mt: 2, align: "center", wrap: "wrap", key: one.partition },
        operations.includes("merge") && h(React.Fragment, null,
          h(Start, runOf(on, "merge", { partitions: [globOf(one.partition)], dry_run: true }), "Plan its merge"),
          h(Start, runOf(on, "merge", { partitions: [globOf(one.partition)] }), "Merge it")),
        operations.includes("remove_partitions") &&
          h(Start, { dagId: "remove_partitions", conf: { table, partitions: [globOf(one.partition)], dry_run: false }, asks: true, title: "The run asks which partitions, and then for an approval" }, "Remove it …")),
      operations.includes("rewrite_partitions") && h(Rewrite, { key: `rewrite ${one.partition}`, on, partition: one.partition })));
}

/** Where a transaction is not in force any more. */
const Undone = ({ undone }) => h(ui.Badge, { colorPalette: "orange", ml: 2, "data-testid": "undone" },
  undone.partly ? `partly undone by ${undone.by}` : `undone by ${undone.by}`);

const named = (partitions, count) => {
  const shown = partitions.slice(0, 2).map((name) => name || "(none)").join(", ");
  return count > 2 ? `${shown} and ${number(count - 2)} more` : shown;
};

/** Whose appends there are, cut to the first two. */
const whoseAppends = (appends) => {
  const shown = appends.slice(0, 2).map(({ words }) => words).join("; ");
  return `${shown}${appends.length > 2 ? `; and ${number(appends.length - 2)} more` : ""}`;
};

/** Whose appends a transaction took in, or none has taken in yet, all of them as the title. */
const Appends = ({ said, appends, testid }) => appends.length > 0 && h(ui.Text, { fontSize: "xs", color: "fg.muted", title: appends.map(({ words }) => words).join("\n"), "data-testid": testid }, `${said} ${whoseAppends(appends)}`);

const change = (before, after, show) => (before === after ? show(before ?? 0) : `${show(before ?? 0)} → ${show(after ?? 0)}`);

/** The run that a link to this page names, as [DAG, run id]. */
function useNamedRun() {
  const asked = new URLSearchParams(router.useLocation().search);
  return [asked.get("dag"), asked.get("run")];
}

function Transactions({ detail, table, operations, now }) {
  const newest = detail.transactions[0]?.seq;
  const [to, setTo] = useState(null);
  const [namedDag, namedRun] = useNamedRun();
  const isNamed = (run) => namedRun !== null && run.run_id === namedRun && run.dag_id === namedDag;
  const made = detail.transactions.filter(({ run }) => isNamed(run)).map(({ seq }) => seq);
  const show = useCallback((element) => element?.scrollIntoView({ block: "center" }), [namedRun]);
  const left = h(Appends, { said: "In none of them yet:", appends: detail.not_taken_in, testid: "not-taken-in" });
  if (!detail.transactions.length) return h(Section, { title: "Transactions" }, h(ui.Text, { color: "fg.muted" }, "There is none yet."), left);
  const titles = ["", "When", "What", "By", "Parts", "Rows", "Size", ""];
  return h(Section, { title: "Transactions", note: `the newest ${detail.transactions.length}` },
    namedRun !== null && h(ui.Text, { mb: 2, "data-testid": "named" }, "Run ", h(Link, { to: runPath(namedDag, namedRun) }, `${namedRun} of ${namedDag}`),
      made.length ? ` made ${made.length === 1 ? "transaction" : "transactions"} ${listed(made.toReversed())}.` : " made none of them."),
    to !== null && h(Restore, { key: to, table, to, close: () => setTo(null) }),
    left,
    h(ui.Box, { maxH: "96", overflow: "auto" }, h(ui.Table.Root, { size: "sm", stickyHeader: true },
      h(ui.Table.Header, null, h(ui.Table.Row, null, titles.map((title, key) => h(ui.Table.ColumnHeader, { key }, title)))),
      h(ui.Table.Body, null, detail.transactions.map(({ seq, t, op, why, run, counts, appends, undone, partitions, partition_count: changed }) => h(ui.Table.Row, { key: seq, "data-testid": "transaction", "aria-current": isNamed(run) ? "true" : undefined, ref: seq === made[0] ? show : undefined, css: isNamed(run) ? { "& td": { bg: "blue.subtle" } } : undefined },
        h(ui.Table.Cell, null, seq),
        h(ui.Table.Cell, { title: date(t), whiteSpace: "nowrap" }, ago(t, now)),
        h(ui.Table.Cell, null,
          h(ui.Text, { as: "span", textDecoration: undone && !undone.partly ? "line-through" : "none" }, op), undone && h(Undone, { undone }),
          h(ui.Text, { fontSize: "xs", color: "fg.muted", title: partitions.join("\n") }, [why, named(partitions, changed)].filter(Boolean).join("; ")),
          h(Appends, { said: "took in", appends, testid: "took-in" })),
        h(ui.Table.Cell, null, run.dag_id ? h(Link, { to: `/dags/${run.dag_id}/runs/${encodeURIComponent(run.run_id)}` }, run.dag_id.split("__")[0]) : (run.user || run.host || run.run_id || "?"),
          h(ui.Text, { fontSize: "xs", color: "fg.muted" }, [run.dag_id && run.user, run.approved_by && `approved by ${run.approved_by}`].filter(Boolean).join(", "))),
        h(ui.Table.Cell, { whiteSpace: "nowrap" }, change(counts.parts_in, counts.parts_out, number)),
        h(ui.Table.Cell, { whiteSpace: "nowrap" }, change(counts.rows_in, counts.rows_out, number),
          counts.rows_changed > 0 && h(ui.Text, { fontSize: "xs", color: "fg.muted" }, `${number(counts.rows_changed)} changed`)),
        h(ui.Table.Cell, { whiteSpace: "nowrap" }, change(counts.bytes_in, counts.bytes_out, size)),
        h(ui.Table.Cell, null, seq === newest || !operations.includes("restore") ? null
          : h(ui.Button, { size: "xs", variant: "outline", onClick: () => setTo(seq) }, "Plan a restore to here"))))))));
}

const CHART = { width: 480, height: 96, left: 2, bottom: 16 };

/** Bars over time, one for each bucket; `show` makes a value text. Follows the theme by its colours. */
function Bars({ title, total, buckets, step, value, show, colour }) {
  const most = Math.max(...buckets.map(value), 0);
  const wide = (CHART.width - CHART.left) / Math.max(buckets.length, 12);
  const tall = CHART.height - CHART.bottom;
  const day = (ms) => (step < 86_400_000 ? date(ms).slice(5, 16) : date(ms).slice(0, 10));
  const x = (at) => CHART.left + at * wide;
  const bar = (one, at) => {
    const high = most ? (tall * Math.max(0, value(one))) / most : 0;
    return h("rect", { key: one.t, x: x(at), y: tall - high, width: Math.max(1, wide - 1), height: high, rx: 1, fill: "currentColor" },
      h("title", null, `${date(one.t)}: ${show(value(one))}`));
  };
  const muted = { fill: "var(--chakra-colors-fg-muted)", fontSize: "10px" };
  const label = (at, anchor) => h("text", { key: anchor, x: x(anchor === "end" ? at + 1 : at), y: CHART.height - 3, textAnchor: anchor, style: muted }, day(buckets[at].t));
  return h(ui.Box, { flex: "1", minW: "80", maxW: "xl" },
    h(ui.Text, { fontSize: "sm" }, title, ": ", h("b", null, show(total)), h(ui.Text, { as: "span", color: "fg.muted", fontSize: "xs" }, most ? `, at most ${show(most)} in ${duration(step)}` : "")),
    h(ui.Box, { as: "svg", viewBox: `0 0 ${CHART.width} ${CHART.height}`, width: "100%", color: colour, role: "img", "aria-label": `${title}: ${show(total)}` },
      h(ui.Box, { as: "line", x1: 0, x2: CHART.width, y1: tall, y2: tall, stroke: "border.emphasized" }),
      buckets.map(bar),
      buckets.length > 0 && label(0, "start"),
      buckets.length > 5 && label(buckets.length - 1, "end")));
}

/** What maintenance spent and saved, as sentences. */
function moneySentences({ transactions, requests, prices, ...money }) {
  const sent = ["put", "list", "get", "delete"].map((kind) => `${number(requests[kind])} ${kind.toUpperCase()}`);
  const fewer = money.requests_saved_by_a_scan;
  return [
    `Maintenance has spent ${usd(money.usd_spent)} on requests to the store: ${listed(sent)} in ${counted(transactions, "transaction")} (merges, clean-ups, TTL runs, drops). Merges have read ${size(money.bytes_in)} and written ${size(money.bytes_out)}.`,
    fewer > 0
      ? `Readers have saved ${usd(money.usd_saved_by_1000_scans)} with every 1,000 scans of the whole table: a scan, which is a query that opens each part, sent ${number(Number(fewer.toFixed(1)))} GET requests fewer than without the merges of this time.`
      : "The merges of this time have saved readers no requests.",
    money.scans_to_be_even === null ? "" : `From ${counted(money.scans_to_be_even, "such scan")} on in this time, maintenance has paid for itself. How many there were, nobody records.`,
    `Prices: ${prices.put_of_1000} USD for 1,000 PUT or LIST, ${prices.get_of_1000} USD for 1,000 GET, nothing for DELETE, as of S3 Standard in us-east-1.`,
  ].filter(Boolean);
}

/** Money of the last 30 days. */
function Money({ money, now }) {
  if (money === null) return null;
  const muted = { fontSize: "sm", color: "fg.muted", mt: 1 };
  return h(Section, { title: "Money", note: `since ${date(money.since)}, ${ago(money.since, now)}` },
    h(ui.Box, { "data-testid": "money" },
      moneySentences(money).map((text) => h(ui.Text, { key: text }, text)),
      h(ui.Text, muted, `Assumed: ${money.assumed.join("; ")}.`),
      h(ui.Text, muted, `Not counted: ${money.left_out.join("; ")}.`)));
}

function Savings({ savings, now }) {
  const { buckets, step_ms: step } = savings;
  return h(Section, { title: "Saved by maintenance", note: savings.since ? `since ${date(savings.since)}, ${ago(savings.since, now)}` : "no transaction yet" },
    buckets.length > 0 && h(ui.Flex, { gap: 8, wrap: "wrap", "data-testid": "savings" },
      h(Bars, { title: "Requests less for each scan, by merges", total: savings.requests, buckets, step, value: (one) => one.requests, show: number, colour: "blue.solid" }),
      h(Bars, { title: "Bytes deleted by clean-ups", total: savings.bytes, buckets, step, value: (one) => one.bytes, show: size, colour: "green.solid" })));
}

function Sizes({ sizes }) {
  const most = Math.max(1, ...sizes.counts);
  const names = [...sizes.steps.map((step) => `< ${size(step).replace(".0", "")}`), "larger"];
  return h(Section, { title: "Sizes of parts" }, h(ui.Flex, { gap: 1, align: "end", height: "28" },
    sizes.counts.map((count, at) => h(ui.Flex, { key: names[at], direction: "column", align: "center", justify: "end", height: "100%", flex: "1", title: `${names[at]}: ${counted(count, "part")}` },
      h(ui.Text, { fontSize: "xs" }, count ? number(count) : ""),
      h(ui.Box, { bg: "blue.solid", width: "100%", height: `${(70 * count) / most}%`, minH: count ? "2px" : 0, borderTopRadius: "sm" }),
      h(ui.Text, { fontSize: "2xs", color: "fg.muted", whiteSpace: "nowrap" }, names[at])))));
}

function Next({ plans, on, now }) {
  const { table, operations } = on;
  const said = {
    merge: (plan) => `${counted(plan.parts_in, "part")} would become ${number(plan.parts_out)}, ${size(plan.bytes_in)} to read, ${counted(plan.requests, "request")}`,
    cleanup: (plan) => `${plan.estimated ? "about " : ""}${counted(plan.parts + plan.log_files + plan.txn_files, "object")} would be deleted, ${size(plan.bytes)}`,
    ttl: (plan) => `${counted(plan.parts, "part")} would go, ${size(plan.bytes)}`,
  };
  const titles = { merge: "Merge", cleanup: "Clean-up", ttl: "TTL" };
  const until = (one) => (one.first_ms === null ? "" : `, the first goes ${when(one.first_ms, now)}, the last ${when(one.last_ms, now)} (${date(one.last_ms)})`);
  const why = (plan) => [
    ...Object.entries(plan.left_alone ?? plan.kept ?? {}).map(([text, count]) => `${number(count)}: ${text}`),
    ...(plan.waiting ?? []).map((one) => `${number(one.count)} ${one.what} (${size(one.bytes)}) wait${until(one)}: ${one.reason}`),
  ];
  return h(Section, { title: "The next runs" }, Object.entries(plans).map(([name, plan]) => h(ui.Box, { key: name, mb: 2 },
    h(ui.Text, null, h("b", null, `${titles[name]}: `), plan === null ? "no ttl is set" : plan.problem ? `cannot be planned: ${plan.problem}; ${plan.next_step}` : plan.nothing_to_do ? "nothing to do" : said[name](plan)),
    plan && why(plan).map((text) => h(ui.Text, { key: text, color: "fg.muted", fontSize: "sm", pl: 4 }, text)))),
    h(ui.Flex, { gap: 2, mt: 2 },
      operations.includes("merge") && h(React.Fragment, null,
        h(Start, runOf(on, "merge", { dry_run: true }), "Plan a merge"),
        h(Start, runOf(on, "merge", {}), "Merge now")),
      operations.includes("tombstone_cleanup") && h(Start, runOf(on, "tombstone_cleanup", { dry_run: true }), "Plan a clean-up"),
      operations.includes("verify") && h(Start, runOf(on, "verify", {}), "Verify now")),
    h(ByForm, { table, operations }));
}

/** Rewrites that are written and wait for somebody to commit or discard them, with their evidence. */
function Prepared({ detail, table, now }) {
  const title = "Waits for approval";
  if (detail.prepared_problem) return h(Section, { title }, h(Problem, { text: detail.prepared_problem }));
  if (!detail.prepared?.length) return null;
  return h(Section, { title }, detail.prepared.map((one) => h(ui.Box, { key: one.id, mb: 6, "data-testid": "prepared" },
    h(ui.Text, null, `${one.is_query ? "Rewrite by the query" : "Keep only rows with"} `, h(ui.Code, null, one.asked)),
    h(ui.Text, { fontSize: "sm", color: "fg.muted" }, `Prepared ${ago(one.t, now)}${one.user ? ` by ${one.user}` : ""}, as of transaction ${number(one.seq)}: ${counted(one.parts, "new part")} (${size(one.bytes)}), which nobody sees yet.`),
    h(Decide, { one, table }),
    h(Difference, { shown: one.evidence }))));
}

/** Where somebody decides: in the form of its run, or at the command line that has prepared it. */
function Decide({ one, table }) {
  if (one.begun) return h(ui.Text, null, "Somebody has decided; if this stays, end it: ", h(ui.Code, null, `firnline rewrite ${table} --prepared`));
  if (one.dag_id) return h(ui.Text, null, h(Link, { to: `${runPath(one.dag_id, one.run_id)}/required_actions` }, "Approve or reject it"), " in its run.");
  return h(ui.Text, null, "Decide by ", h(ui.Code, null, `firnline rewrite ${table} --commit ${one.id}`), " or ", h(ui.Code, null, "--discard"), ".");
}

/** Rows that go, come and change; of a table without a key none is said to change. */
function Difference({ shown }) {
  const kinds = shown.keys.length ? ["removed", "added", "changed"] : ["removed", "added"];
  const cells = (each, name, bold) => h(ui.Table.Row, { key: name, fontWeight: bold ? "bold" : undefined }, h(ui.Table.Cell, null, name),
    [`${number(each.rows_before)} → ${number(each.rows_after)}`, ...kinds.map((kind) => number(each[kind]))].map((text, at) => h(ui.Table.Cell, { key: at, textAlign: "end" }, text)));
  const more = shown.partition_count - shown.partitions.length;
  const muted = { fontSize: "sm", color: "fg.muted", mt: 1 };
  return h(React.Fragment, null,
    h(ui.Table.Root, { size: "sm", mt: 2, width: "auto" },
      h(ui.Table.Header, null, h(ui.Table.Row, null, ["partition", "rows", ...kinds].map((title, at) => h(ui.Table.ColumnHeader, { key: title, textAlign: at ? "end" : "start" }, title)))),
      h(ui.Table.Body, null, shown.partitions.map((each) => cells(each, each.partition || "-")),
        shown.partition_count > 1 && cells(shown, more > 0 ? `all ${counted(shown.partition_count, "partition")}, ${number(more)} not shown` : counted(shown.partition_count, "partition"), true))),
    shown.keys.length > 0 ? h(ui.Text, muted, `Rows are matched by ${shown.keys.join(", ")}.`)
      : shown.added > 0 && h(ui.Text, muted, "No key matches rows: a changed row is one removed and one added."),
    Object.keys(shown.columns).length > 0 && h(ui.Text, { fontSize: "sm", mt: 1 }, "Values that change: ", Object.entries(shown.columns).map(([name, count]) => `${number(count)} of ${name}`).join(", "), "."),
    shown.assertions.map((text) => h(ui.Text, { key: text, fontSize: "sm", mt: 1 }, "Holds: ", h(ui.Code, null, text))));
}

/** What needs values that may not stand in an address: the form of the DAG asks for them. */
function ByForm({ table, operations }) {
  const forms = [["delete_where", "Delete rows by a condition"], ["erase", "Erase the rows of keys"]].filter(([dagId]) => operations.includes(dagId));
  if (!forms.length) return null;
  return h(ui.Text, { mt: 2, fontSize: "sm" }, "By the form of a DAG, there with ", h("b", null, "Trigger"), " and the table ", h("b", null, table), ": ",
    forms.map(([dagId, title], at) => h(React.Fragment, { key: dagId }, at > 0 && ", ", h(Link, { to: `/dags/${dagId}` }, title))), ".");
}

/** Which rows a hold keeps; the server leaves values out that may be those of a person. */
function heldRows({ rows, by_partition: named, partitions, partition_count: count }) {
  const all = rows ?? "all rows";
  if (!named) return all;
  const shown = partitions.slice(0, 3).map((name) => name || "(none)").join(", ");
  return `${all} in ${counted(count, "partition")}${shown && ` (${shown}${count > 3 ? ", …" : ""})`}`;
}

/** Legal holds in force. */
function Holds({ holds, table }) {
  if (!holds.length) return null;
  const muted = { fontSize: "xs", color: "fg.muted" };
  return h(Section, { title: "Legal holds", note: "rows that nothing may remove until a person ends the hold" },
    h(ui.Table.Root, { size: "sm" },
      h(ui.Table.Header, null, h(ui.Table.Row, null, ["Hold", "Rows", "Covers at most", "By", "Why"].map((title) => h(ui.Table.ColumnHeader, { key: title }, title)))),
      h(ui.Table.Body, null, holds.map((one) => h(ui.Table.Row, { key: one.name, "data-testid": "hold" },
        h(ui.Table.Cell, null, one.name),
        h(ui.Table.Cell, null, heldRows(one)),
        h(ui.Table.Cell, null, one.live === null ? "not counted: there are too many parts" : `${counted(one.live.rows, "row")} in ${counted(one.live.parts, "part")}, ${size(one.live.bytes)}`,
          one.dead?.parts > 0 && h(ui.Text, muted, `and ${counted(one.dead.parts, "dead part")}, ${size(one.dead.bytes)}, which clean-ups keep where they still exist`)),
        h(ui.Table.Cell, null, one.by, h(ui.Text, muted, [`since ${date(one.t)}`, one.approved_by && `approved by ${one.approved_by}`].filter(Boolean).join(", "))),
        h(ui.Table.Cell, null, one.why))))),
    h(ui.Text, { mt: 1, fontSize: "sm", color: "fg.muted" }, "Values of conditions are not shown here: ", h(ui.Code, null, `firnline hold ${table}`), " shows them."));
}

const inTheWay = (tried) => tried.in_the_way.map((each) => `${each.count ? counted(each.count, each.kind) : `${each.kind}s`}: ${each.why}${each.until_ms === null ? `; ${each.next_step}` : `, until ${date(each.until_ms)}`}`).join("; ");

/** What is known of a certificate: as it was read, or of a later try of a clean-up. */
function certificateState(one, tried, now) {
  if (one.problem) return ["red", "does not read", one.problem];
  if (tried?.rows_left) return ["red", tried.status === "complete" ? "wrong" : "open", inTheWay(tried)];
  const done = one.status === "complete" ? one : tried?.status === "complete" ? tried : null;
  if (done) return ["green", "complete", `since ${date(done.completed_ms)}`];
  if (tried?.in_the_way.length) return ["yellow", "open", inTheWay(tried)];
  return ["gray", "open", one.after_ms > now ? `until ${date(one.after_ms)} at least` : "the next clean-up tries it"];
}

/** Erases with their certificates. */
function Erases({ erases, tries, row, path, named, now }) {
  if (!erases?.length) return null;
  const by = row.operations.includes("tombstone_cleanup") ? "completed by clean-ups" : "no clean-up of this table runs here: `firnline certificate` completes them";
  return h(Section, { title: "Erases", note: by }, h(ui.Table.Root, { size: "sm" },
    h(ui.Table.Header, null, h(ui.Table.Row, null, ["Certificate", "Erased", "Keys", "State", ""].map((title) => h(ui.Table.ColumnHeader, { key: title }, title)))),
    h(ui.Table.Body, null, erases.map((one) => {
      const tried = tries[one.id];
      const [colour, state, why] = certificateState(one, tried, now);
      const url = new URL(`${PREFIX}/${path}/certificates/${one.id}${named}`, document.baseURI);
      return h(ui.Table.Row, { key: one.id, "data-testid": "certificate" },
        h(ui.Table.Cell, null, h(ui.Code, null, one.id)),
        h(ui.Table.Cell, { whiteSpace: "nowrap" }, date(one.t), h(ui.Text, { fontSize: "xs", color: "fg.muted" }, [one.by && `by ${one.by}`, one.approved_by && `approved by ${one.approved_by}`].filter(Boolean).join(", "))),
        h(ui.Table.Cell, null, `${number(one.keys)} of ${one.columns.join(", ")}`),
        h(ui.Table.Cell, null, h(ui.Badge, { colorPalette: colour }, state), " ", why, tried && h(React.Fragment, null, " ", h(Link, { to: runPath(tried.dag_id, tried.run_id) }, "last try"))),
        h(ui.Table.Cell, null, one.version > 1 && one.status !== "planned" && h(ui.Link, { href: url.href, download: true, color: "fg.info" }, "JSON")));
    }))));
}

function Facts({ detail, now }) {
  const pair = (key, left, right, more) => h(ui.Table.Row, { key }, h(ui.Table.Cell, null, left), h(ui.Table.Cell, null, right), h(ui.Table.Cell, { color: "fg.error" }, more));
  return h(ui.Flex, { gap: 10, wrap: "wrap" },
    h(Section, { title: "Columns" },
      h(ui.Table.Root, { size: "sm" }, h(ui.Table.Body, null,
        Object.entries(detail.schema).map(([column, type]) => pair(column, column, type, "")))),
      h(ui.Text, { mt: 3, fontSize: "sm", color: "fg.muted" }, detail.changes.length ? "Changes that parts wait for:" : "No change of the columns waits for merges."),
      detail.changes.map((one) => h(ui.Text, { key: `${one.seq} ${one.what}`, fontSize: "sm", "data-testid": "change" }, `${one.seq}: ${one.what}, ${ago(one.t, now)}`))),
    h(Section, { title: "Properties" }, h(ui.Table.Root, { size: "sm" }, h(ui.Table.Body, null,
      detail.properties.map((one) => pair(one.name, one.name, one.table ?? one.settings, one.table !== null && one.settings !== null ? `settings: ${one.settings}` : "")))),
      detail.properties.some((one) => one.table === null) && h(ui.Text, { mt: 3, fontSize: "sm", color: "fg.muted" }, "The table states none itself: these are the settings.")));
}

/** The tab of a DAG that has no table of its own. */
function NoTable({ dagId, why }) {
  const [data, error] = useFigures("fleet");
  const said = why?.startsWith("the settings") ? `${why}.` : `${dagId} is not the DAG of one table: where it works on tables, each of its runs names one. The tables are:`;
  return h(ui.Box, { p: 6 },
    h(ui.Text, { mb: 3, "data-testid": "no-table" }, said),
    error && h(Problem, { text: error }),
    (data?.tables ?? []).slice(0, MOST_NAMED).map((row) => h(ui.Flex, { key: row.table, gap: 3, mb: 1, align: "center", "data-testid": "table" },
      h(Score, { score: row.score }), h(Link, { to: tablePath(row) }, row.table))),
    h(ui.Box, { mt: 3 }, h(Link, { to: "/plugin/firnline-tables" }, data ? `All ${counted(data.tables.length, "table")} with their figures` : "All tables")));
}

const MOST_NAMED = 50;

const TableOfDag = ({ dagId }) => h(dagId === ERASE_PERSON ? Requests : OneTable, { dagId });

function OneTable({ dagId }) {
  const [asked] = router.useSearchParams();
  const table = asked.get("table");
  const path = `tables/${encodeURIComponent(dagId)}`;
  const named = table === null ? "" : `?${new URLSearchParams({ table })}`;
  const [row, error, missing] = useFigures(`${path}${named}`);
  const [found] = useFigures(`${path}/detail${named}`);
  if (missing) return h(NoTable, { dagId, why: error });
  if (row === null && error === null) return h(ui.Box, { p: 6 }, h(ui.Spinner), " Reading …");
  if (row === null) return h(ui.Box, { p: 6 }, h(Problem, { text: error }));
  const { figures, airflow } = row;
  const now = row.now_ms;
  const detail = found?.detail;
  return h(ui.Box, { p: 6, overflow: "auto" },
    error && h(Problem, { text: `The figures could not be read: ${error}` }),
    row.problem && h(Problem, { text: `The table cannot be read: ${row.problem}. ${row.age_ms === null ? "" : `What is shown is ${duration(row.age_ms)} old.`}` }),
    h(ui.Flex, { gap: 3, align: "center", mb: 1 }, h(ui.Heading, { size: "lg" }, row.table), h(Score, { score: row.score }),
      figures?.holds > 0 && h(ui.Badge, { colorPalette: "blue", size: "lg", title: HELD, "data-testid": "held" }, counted(figures.holds, "legal hold"))),
    h(ui.Text, { color: "fg.muted", mb: 4 }, row.root, `, ${freshness(row) || `${duration(row.age_ms)} ago`}`),
    row.problem === "" && row.reasons.map((reason) => h(ui.Text, { key: reason.text }, `−${reason.points}  ${reason.text}`)),
    figures && h(ui.Flex, { gap: 4, wrap: "wrap", mt: 4 },
      h(Tile, { title: "Parts", value: number(figures.parts), note: counted(figures.partitions, "partition") }),
      h(Tile, { title: "Rows", value: number(figures.rows) }),
      h(Tile, { title: "Size", value: size(figures.bytes), note: counted(figures.small_parts, "small part") }),
      h(Tile, { title: "To merge", value: number(figures.merge_parts), note: `${counted(figures.merge_parts - figures.merge_outputs, "request")} less for each scan` }),
      h(Tile, { title: "Dead", value: size(figures.dead_bytes), note: dead(figures, now), hint: figures.last_due && `the last of it may go ${date(figures.last_due)}` }),
      h(Tile, { title: "Log", value: counted(figures.log_files_read, "file"), note: `of ${number(figures.log_files)}, ${size(figures.log_bytes)}` }),
      h(Tile, { title: "Last merge", value: ago(figures.last.merge?.t, now) })),
    h(ui.Flex, { gap: 3, mt: 4 }, h(ui.Text, null, "Lock:"), h(Lock, { holders: airflow.holders, now }),
      h(ui.Text, { ml: 6 }, "Last verify:"), h(Run, { run: airflow.runs.verify, now })),
    !detail && !row.problem && h(ui.Text, { mt: 8, color: "fg.muted" }, h(ui.Spinner, { size: "sm", mr: 2 }), "The details are being read …"),
    detail && h(React.Fragment, null,
      h(Prepared, { detail, table: row.table, now }),
      h(Next, { plans: detail.next, on: row, now }),
      h(Partitions, { detail, on: row }),
      h(Transactions, { detail, table: row.table, operations: row.operations, now }),
      h(Holds, { holds: detail.holds, table: row.table }),
      h(Erases, { erases: detail.erases, tries: row.tries, row, path, named, now }),
      h(Money, { money: detail.money, now }),
      h(Savings, { savings: detail.savings, now }),
      h(Sizes, { sizes: detail.sizes }),
      h(Facts, { detail, now })));
}

// Airflow looks a component up by the name of its entry in the plugin.
globalThis.Tables = Tables;
globalThis["Table health"] = TableOfDag;
