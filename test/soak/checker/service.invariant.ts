import type { SessionsLine } from '../recording.js';
import type { Call, History } from './history.js';
import { numberAt } from './json.js';
import { describe } from './streams.invariant.js';
import type { Violation } from './violation.js';
import { disturbancesOf, lengthOf, outagesOf, type Span, troublesOf, widened, within, without } from './windows.js';

/** How long a replica may take, once the database is well again, to do what it is asked, in ms. */
const SERVES_AGAIN_MS = 10_000;

/** Two pools of ten, and what renews, listens and cancels beside them. */
const SESSIONS_MOST = 2 * 10 + 3;

/** A connection that somebody cut, or the process of which died, is in the server's list until its statement ends. */
const LINGERS_MS = 10_000;

/** After a fault of the database a replica may still be busy with what came in meanwhile, and refuse more of it. */
const BACKLOG_MS = 5_000;

/** What a replica answers with where it has failed itself. */
const INTERNAL = /Internal error/i;

/** Faults through which a replica only stands still: what the database has answered meanwhile is there when it goes on. */
const STANDS_STILL = ['blocking-request', 'freeze'];

/**
 * Beyond the contract: after a fault of the database every replica does its work again; meanwhile none fills the server
 * with sessions; and nobody is told of an internal error whose message was accepted, or who only looked, while the
 * database was there.
 */
export function service(history: History): Violation[] {
  return [...stuck(history), ...sessions(history), ...blamed(history)];
}

function stuck(history: History): Violation[] {
  const outages = outagesOf(history);
  return history.lines.flatMap((line): Violation[] => {
    if (line.kind !== 'service') return [];
    const { replica, from, to = line.at } = line;
    const ms = lengthOf(without({ from, to }, [...outages, ...troublesOf(history, replica)]));
    if (ms <= SERVES_AGAIN_MS) return [];
    const end = line.to === undefined ? 'and it was given up' : 'until it did';
    const text = `replica ${replica} did not do its work for ${Math.round(ms)} ms after the database was well, ${end}`;
    return [{ invariant: 'service', text }];
  });
}

/** One for each replica: the worst of what was seen. */
function sessions(history: History): Violation[] {
  const lines = history.lines.filter((line): line is SessionsLine => line.kind === 'sessions');
  const replicas = new Set(lines.flatMap((line) => Object.keys(line.sessions)));
  return [...replicas].flatMap((replica): Violation[] => {
    const lingering = widened(disturbancesOf(history, replica), 0, LINGERS_MS);
    const counted = lines.filter(({ at }) => !lingering.some((span) => within(at, span)));
    const most = counted.reduce((max, line) => Math.max(max, line.sessions[replica] ?? 0), 0);
    if (most <= SESSIONS_MOST) return [];
    const text = `replica ${replica} had ${most} sessions while a table was locked; the bound is ${SESSIONS_MOST}`;
    return [{ invariant: 'sessions', text }];
  });
}

function blamed(history: History): Violation[] {
  const outages = widened(outagesOf(history), 0, BACKLOG_MS);
  const disturbances = new Map<string, Span[]>();
  const disturbancesAt = (replica: string): Span[] => {
    const known = disturbances.get(replica) ?? disturbancesOf(history, replica, STANDS_STILL);
    disturbances.set(replica, known);
    return known;
  };
  return history.calls.flatMap((call): Violation[] => {
    const { request, end, events } = call;
    if (end?.how !== 'broken' || events.length > 0 || !INTERNAL.test(end.error ?? '')) return [];
    const excuses = [...outages, ...disturbancesAt(request.replica)];
    const excused = excuses.some(({ from, to }) => from <= end.at && to >= request.at);
    const done = excused ? undefined : doneOf(history, call, end.at);
    if (done === undefined) return [];
    const { taskId } = done;
    const text = `${describe(call)}: it was answered by an internal error, ${done.what}`;
    return [{ invariant: 'service', ...(taskId !== undefined && { taskId }), text }];
  });
}

interface Done {
  readonly what: string;
  readonly taskId: string | undefined;
}

/** Why an internal error is no answer to this; undefined where it may be one. */
function doneOf(history: History, { request }: Call, answeredAt: number): Done | undefined {
  const { operation, messageId, taskId } = request;
  if (operation === 'get' || operation === 'list' || operation === 'subscribe') {
    return { what: 'and it only looked', taskId };
  }
  if (messageId === undefined) return undefined;
  // Where the message was sent by another call too, it may have been accepted from that one.
  const senders = history.calls.filter((call) => call.request.messageId === messageId && call.request.at < answeredAt);
  const accepted = acceptanceOf(history, messageId);
  if (senders.length > 1 || !accepted || accepted.at > answeredAt) return undefined;
  return { what: `and its message ${messageId} was accepted`, taskId: accepted.taskId };
}

/** The task that holds a message, and when that was written. */
function acceptanceOf({ tasks }: History, messageId: string): { taskId: string; at: number } | undefined {
  for (const { row, log, audit } of tasks.values()) {
    if (!log.messageIds().includes(messageId)) continue;
    const event = log.events.find((it) => JSON.stringify(it.event).includes(messageId));
    const written = audit.find(
      ({ source, op, after }) =>
        source === 'event' && op === 'insert' && numberAt(after ?? undefined, 'version') === event?.version,
    );
    return written && { taskId: row.taskId, at: written.at };
  }
  return undefined;
}
