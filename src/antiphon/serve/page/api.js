// Requests to the server that this page came from, and to no other.

const KEY = "antiphon-key";

/** An error that the server has sent, or that it did not answer. */
export class ApiError extends Error {
  constructor(status, body) {
    super(body?.error?.message ?? `the server has answered ${status}`);
    this.status = status;
  }
}

export const noAnswer = () => new ApiError(0, {error: {message: "The server does not answer; is it still running?"}});

/** The message of an error of the server; any other is thrown on. */
export function messageOf(error) {
  if (error instanceof ApiError) return error.message;
  throw error;
}

function headers() {
  const key = sessionStorage.getItem(KEY);
  return {"Content-Type": "application/json", ...(key ? {Authorization: `Bearer ${key}`} : {})};
}

/** Keep a key for this tab. */
export const setKey = (key) => sessionStorage.setItem(KEY, key);

async function checked(response) {
  if (response.ok) return response;
  throw new ApiError(response.status, await response.json().catch(() => null));
}

/** The connection has failed, unless the page has ended it. */
function failed(error) {
  throw error instanceof ApiError || error.name === "AbortError" ? error : noAnswer();
}

const request = (path, options) => fetch(path, {headers: headers(), ...options}).then(checked).catch(failed);
const send = (path, body, signal) => request(path, {method: "POST", body: JSON.stringify(body), signal});
const json = (response) => response.json().catch(failed);

/** The JSON of a GET. */
export const get = (path) => request(path).then(json);

/** The JSON of a POST. */
export const post = (path, body, signal) => send(path, body, signal).then(json);

/** The server-sent events of a POST, one after another: {event, data}. */
export async function* stream(path, body, signal) {
  const response = await send(path, body, signal);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const {value, done} = await reader.read().catch(failed);
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
export function asCode({path, body}) {
  const url = `${location.origin}${path}`;
  const text = JSON.stringify(body, null, 2);
  const key = sessionStorage.getItem(KEY); // of which only the name is shown
  return {
    curl: `curl ${url} \\\n  -H 'Content-Type: application/json' \\\n${key ? '  -H "Authorization: Bearer $ANTIPHON_API_KEY" \\\n' : ""}  -d '${text.replaceAll("'", "'\\''")}'`,
    Python: `${key ? "import os\n\n" : ""}import requests\n\nanswer = requests.post(\n    "${url}",\n    json=${python(body, 1)},\n${key ? '    headers={"Authorization": f"Bearer {os.environ[\'ANTIPHON_API_KEY\']}"},\n' : ""})\nprint(answer.${path.endsWith("stream") ? "text" : "json()"})`,
    JSON: text,
  };
}

/** A value as Python writes it, with a line for each key; `depth` indents them. */
function python(value, depth) {
  if (Array.isArray(value)) return `[${value.map((one) => python(one, depth)).join(", ")}]`;
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value !== "object") return JSON.stringify(value);
  const indent = "    ".repeat(depth);
  const rows = Object.entries(value).map(([key, one]) => `${indent}    ${JSON.stringify(key)}: ${python(one, depth + 1)},\n`);
  return `{\n${rows.join("")}${indent}}`;
}
