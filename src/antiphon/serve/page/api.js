// Requests to the server that this page came from, and to no other.

const KEY = "antiphon-key";
export const last = {path: "", body: null}; // the request behind what is shown

/** An error that the server has sent, or that it did not answer. */
export class ApiError extends Error {
  constructor(status, body) {
    super(body?.error?.message ?? `the server has answered ${status}`);
    this.status = status;
    this.code = body?.error?.code ?? "";
  }
}

function headers() {
  const key = sessionStorage.getItem(KEY);
  return {"Content-Type": "application/json", ...(key ? {Authorization: `Bearer ${key}`} : {})};
}

/** Keep a key for this tab. */
export function setKey(key) {
  sessionStorage.setItem(KEY, key);
}

async function checked(response) {
  if (response.ok) return response;
  throw new ApiError(response.status, await response.json().catch(() => null));
}

async function request(path, options) {
  try {
    return await checked(await fetch(path, {headers: headers(), ...options}));
  } catch (error) {
    if (error instanceof ApiError || error.name === "AbortError") throw error;
    throw new ApiError(0, {error: {code: "no_answer", message: "The server does not answer; is it still running?"}});
  }
}

/** The JSON of a GET. */
export async function get(path, signal) {
  return (await request(path, {signal})).json();
}

/** The JSON of a POST. `quiet` requests are not shown as the request behind the page. */
export async function post(path, body, {signal, quiet = false} = {}) {
  if (!quiet) Object.assign(last, {path, body});
  return (await request(path, {method: "POST", body: JSON.stringify(body), signal})).json();
}

/** The server-sent events of a POST, one after another: {event, data}. */
export async function* stream(path, body, signal) {
  Object.assign(last, {path, body});
  const response = await request(path, {method: "POST", body: JSON.stringify(body), signal});
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const {value, done} = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    yield* blocks.map(parsed);
  }
}

function parsed(block) {
  const fields = Object.fromEntries(block.split("\n").map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 2)]));
  return {event: fields.event, data: JSON.parse(fields.data)};
}

/** A request as `curl` and as Python, for a shell and a script. */
export function asCode(path, body) {
  const url = `${location.origin}${path}`;
  const json = JSON.stringify(body, null, 2);
  const quoted = json.replaceAll("'", "'\\''");
  const python = pythonValue(body, 0);
  const key = sessionStorage.getItem(KEY); // of which only the name is shown
  return {
    curl: `curl ${url} \\\n  -H 'Content-Type: application/json' \\\n${key ? '  -H "Authorization: Bearer $ANTIPHON_API_KEY" \\\n' : ""}  -d '${quoted}'`,
    Python: `${key ? "import os\n\n" : ""}import requests\n\nanswer = requests.post(\n    "${url}",\n    json=${python.replaceAll("\n", "\n    ")},\n${key ? '    headers={"Authorization": f"Bearer {os.environ[\'ANTIPHON_API_KEY\']}"},\n' : ""})\nprint(answer.${path.endsWith("stream") ? "text" : "json()"})`,
    JSON: json,
  };
}

function pythonValue(value, depth) {
  const inside = "    ".repeat(depth + 1);
  if (value === null) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (Array.isArray(value)) return `[${value.map((one) => pythonValue(one, depth)).join(", ")}]`;
  if (typeof value === "object") {
    const rows = Object.entries(value).map(([key, one]) => `${inside}${JSON.stringify(key)}: ${pythonValue(one, depth + 1)},\n`);
    return `{\n${rows.join("")}${"    ".repeat(depth)}}`;
  }
  return JSON.stringify(value);
}
