import type { AuditRow } from '../dump.js';
import type { Json } from '../recording.js';
import type { History } from './history.js';
import { numberAt, textAt } from './json.js';
import { isInterrupted, isTerminal } from './states.js';
import type { Violation } from './violation.js';
import { lengthOf, outagesOf, type Span, troublesOf, without } from './windows.js';

/** A claim is a round trip after the sweep that makes it, on a machine that runs; what it did not run is measured. */
const ROUND_TRIPS_MS = 500;

/** How many turns a replica runs again at the same time: further ones wait for their turn. */
const SLOTS = 4;

/**
 * I6: nothing stays running. In the end every task has ended or waits for its user; and on the way there each lease that
 * ran out was claimed within a sweep interval, by any replica that could be counted on. A holder that stood still in the
 * middle of a transaction delays that by two thirds of the TTL. Times without such a replica, or without the database,
 * are not counted: they are measured.
 */
export function ends(history: History): Violation[] {
  const running = [...history.tasks.values()].flatMap(({ row: { taskId, state } }): Violation[] =>
    isTerminal(state) || isInterrupted(state)
      ? []
      : [{ invariant: 'I6', taskId, text: `the task is still ${state}, and all is quiet` }],
  );
  return [...running, ...lateClaims(history)];
}

function lateClaims(history: History): Violation[] {
  const { dump, byNo, times } = history;
  const bound = times.sweep + (2 / 3) * times.ttl + ROUND_TRIPS_MS;
  const unable = unableSpans(history);
  const outages = outagesOf(history);
  return dump.audit.filter(isClaim).flatMap(({ at, before, taskNo, seq }): Violation[] => {
    const expiredAt = numberAt(before ?? undefined, 'expiresAt') ?? at;
    const late = at - expiredAt;
    if (late <= bound) return [];
    const agent = textAt(before ?? undefined, 'agent') ?? '';
    const window = { from: expiredAt, to: at };
    const counted = without(window, [...outages, ...(unable.get(agent) ?? [])]);
    const length = lengthOf(counted);
    if (length <= bound) return [];
    const taskId = byNo.get(taskNo)?.row.taskId;
    const text =
      `a lease that ran out was claimed after ${Math.round(late)} ms, of which ${Math.round(length)} count; ` +
      `the bound is ${Math.round(bound)} (audit ${seq})`;
    return [{ invariant: 'I6', ...(taskId !== undefined && { taskId }), text }];
  });
}

/** A new generation for somebody, where the last one had run out. */
function isClaim({ source, op, at, before, after }: AuditRow): boolean {
  if (source !== 'lease' || op !== 'update' || !before || !after) return false;
  const moved = numberAt(before, 'generation') !== numberAt(after, 'generation');
  return moved && textAt(after, 'holder') !== undefined && (numberAt(before, 'expiresAt') ?? Infinity) <= at;
}

/** For each agent the times in which none of its replicas could have claimed anything. */
function unableSpans(history: History): Map<string, Span[]> {
  const replicas = new Map<string, { agent: string; policy: string; pids: number[] }>();
  for (const line of history.lines) {
    if (line.kind !== 'process') continue;
    const known = replicas.get(line.replica) ?? { agent: line.agent, policy: line.policy, pids: [] };
    known.pids.push(line.pid);
    replicas.set(line.replica, known);
  }
  const everything = { from: 0, to: Number.MAX_SAFE_INTEGER };
  const spans = new Map<string, Span[]>();
  for (const agent of new Set([...replicas.values()].map((replica) => replica.agent))) {
    // What is left over when each replica's able times are taken away.
    let unable: Span[] = [everything];
    for (const [name, replica] of replicas) {
      if (replica.agent !== agent) continue;
      const full = replica.policy === 're-execute' ? fullSpans(history.dump.audit, replica.pids) : [];
      const able = without(everything, [...troublesOf(history, name), ...full]);
      unable = unable.flatMap((span) => without(span, able));
    }
    spans.set(agent, unable);
  }
  return spans;
}

/** When a replica ran as many turns again as it may. */
function fullSpans(audit: readonly AuditRow[], pids: readonly number[]): Span[] {
  const running = new Set<number>();
  const spans: Span[] = [];
  let fullSince: number | undefined;
  for (const { source, taskNo, after, at } of audit) {
    if (source !== 'lease') continue;
    if (isRecovery(after ?? undefined, pids)) running.add(taskNo);
    else running.delete(taskNo);
    const full = running.size >= SLOTS;
    if (full) fullSince ??= at;
    else if (fullSince !== undefined) {
      spans.push({ from: fullSince, to: at });
      fullSince = undefined;
    }
  }
  return fullSince === undefined ? spans : [...spans, { from: fullSince, to: Infinity }];
}

/** A lease that this replica has claimed. */
function isRecovery(lease: Json | undefined, pids: readonly number[]): boolean {
  const holder = textAt(lease, 'holder');
  const ours = holder !== undefined && pids.includes(Number(holder.split(':').at(-2)));
  return ours && (numberAt(lease, 'claims') ?? 0) > 0;
}
