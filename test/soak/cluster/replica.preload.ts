/**
 * Preloaded into every replica of a chaos run. Shifts its wall clock when it is told to, reports when its event loop was
 * not scheduled, ends it with the run, and lets it run a copy of the library (CHAOS_LIBRARY) instead of the one built.
 */
import { register } from 'node:module';
import { pathToFileURL } from 'node:url';

/** What a replica is told. */
export interface ToReplica {
  readonly clockOffsetMs: number;
}

/** What it reports: a time during which it was not scheduled. */
export interface FromReplica {
  readonly lagFrom: number;
  readonly lagTo: number;
}

const SAMPLE_MS = 50;
const LATE_MS = 100;

const { CHAOS_LIBRARY } = process.env;
if (CHAOS_LIBRARY !== undefined) {
  const index = pathToFileURL(CHAOS_LIBRARY).href;
  register(new URL('./library.loader.js', import.meta.url), { data: { index } });
}

let offsetMs = 0;
const realNow = Date.now.bind(Date);
const shiftedNow = (): number => realNow() + offsetMs;
globalThis.Date = new Proxy(Date, {
  apply: () => new Date(shiftedNow()).toString(),
  construct: (target, args: unknown[], newTarget) =>
    Reflect.construct(target, args.length === 0 ? [shiftedNow()] : args, newTarget) as object,
  get: (target, key) => (key === 'now' ? shiftedNow : (Reflect.get(target, key) as unknown)),
});

process.on('message', ({ clockOffsetMs }: ToReplica) => (offsetMs = clockOffsetMs));
process.on('disconnect', () => process.exit(1));
process.channel?.unref();

const monotonic = (): number => performance.timeOrigin + performance.now();
let last = monotonic();
setInterval(() => {
  const at = monotonic();
  const report: FromReplica = { lagFrom: last + SAMPLE_MS, lagTo: at };
  if (at - last > SAMPLE_MS + LATE_MS && process.connected) process.send?.(report);
  last = at;
}, SAMPLE_MS).unref();
