import type { History } from './history.js';

/** A time from one moment to another, in ms. */
export interface Span {
  readonly from: number;
  readonly to: number;
}

export const within = (at: number, { from, to }: Span): boolean => at >= from && at <= to;

/** The parts of a span that none of the others covers. */
export function without(span: Span, others: readonly Span[]): Span[] {
  let left: Span[] = [span];
  for (const { from, to } of others) {
    left = left.flatMap((part) => {
      if (to <= part.from || from >= part.to) return [part];
      return [
        { from: part.from, to: Math.min(from, part.to) },
        { from: Math.max(to, part.from), to: part.to },
      ].filter((piece) => piece.to > piece.from);
    });
  }
  return left;
}

export const lengthOf = (spans: readonly Span[]): number => spans.reduce((sum, { from, to }) => sum + to - from, 0);

/** How long something goes on after it was healed: connections are made anew. In ms. */
const AFTERMATH_MS = 1_000;

/** Faults under which a replica works on as ever. */
const HARMLESS = ['wakeups', 'clock', 'slow-subscriber', 'vanishing-subscriber'];

/** Faults that stop a replica in order. */
const TERMINATES = ['terminate', 'database-stall-terminate'];

/** When a replica was being stopped in order: its streams then end where they are. */
export function stopsOf({ lines }: History, replica: string): Span[] {
  return faultsOf(lines, (fault, hit) => TERMINATES.includes(fault) && hit === replica);
}

/** When a replica could not be counted on: not there, or hit by a fault, or not scheduled. */
export function troublesOf(history: History, replica: string): Span[] {
  const lags = history.lines.flatMap((line) =>
    line.kind === 'lag' && line.who === replica ? [{ from: line.from, to: line.to }] : [],
  );
  return [...disturbancesOf(history, replica), ...lags];
}

/** When something was done to a replica, or it was not there. Faults named in `but` do not count. */
export function disturbancesOf({ lines }: History, replica: string, but: readonly string[] = []): Span[] {
  const uncounted = [...HARMLESS, ...but];
  const spans = faultsOf(lines, (fault, hit) => hit === replica && !uncounted.includes(fault));
  let goneAt: number | undefined = 0;
  for (const line of lines) {
    if (line.kind !== 'process' || line.replica !== replica) continue;
    if (line.phase === 'ended') goneAt = line.at;
    if (line.phase === 'serves' && goneAt !== undefined) spans.push({ from: goneAt, to: line.at + AFTERMATH_MS });
    if (line.phase === 'serves') goneAt = undefined;
  }
  if (goneAt !== undefined) spans.push({ from: goneAt, to: Infinity });
  return spans;
}

/** The spans, and so many ms around each. */
export const widened = (spans: readonly Span[], before: number, after: number): Span[] =>
  spans.map(({ from, to }) => ({ from: from - before, to: to + after }));

/** When the database did not answer, or the machine did not run us: nobody can be blamed for what was not done then. */
export function outagesOf({ lines }: History): Span[] {
  const silent = lines.flatMap((line) => {
    if (line.kind === 'outage') return [{ from: line.from, to: line.to }];
    return line.kind === 'lag' && line.who === 'run' ? [{ from: line.from, to: line.to }] : [];
  });
  const down = faultsOf(lines, (fault) => fault.startsWith('database-'));
  return [...silent, ...down];
}

function faultsOf(lines: History['lines'], wanted: (fault: string, replica: string | undefined) => boolean): Span[] {
  const begun = new Map<number, number>();
  const spans: Span[] = [];
  for (const line of lines) {
    if (line.kind !== 'fault' || !wanted(line.fault, line.replica)) continue;
    if (line.phase === 'begins') begun.set(line.number, line.at);
    else spans.push({ from: begun.get(line.number) ?? line.at, to: line.at + AFTERMATH_MS });
    if (line.phase === 'ends') begun.delete(line.number);
  }
  return [...spans, ...[...begun.values()].map((from) => ({ from, to: Infinity }))];
}
