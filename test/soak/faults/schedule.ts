import { hasNetwork, namesOf } from '../cluster/cluster.js';
import { Random } from '../random.js';
import { backends } from './backends.fault.js';
import { clock } from './clock.fault.js';
import { databaseFreeze } from './database-freeze.fault.js';
import { databaseLimits } from './database-limits.fault.js';
import { databaseLocks } from './database-locks.fault.js';
import { databaseReadOnly } from './database-read-only.fault.js';
import { databaseRestart } from './database-restart.fault.js';
import { databaseStallTerminate } from './database-stall-terminate.fault.js';
import { databaseStall } from './database-stall.fault.js';
import type { Fault, PlannedFault } from './fault.js';
import { freeze } from './freeze.fault.js';
import { kill } from './kill.fault.js';
import { blackHole, cut, delay, halfOpen } from './network.fault.js';
import { blockingRequest, lethalRequest } from './requests.fault.js';
import { slowSubscriber, vanishingSubscriber } from './subscribers.fault.js';
import { terminate } from './terminate.fault.js';
import { wakeups } from './wakeups.fault.js';

export const FAULTS: readonly Fault[] = [
  kill,
  terminate,
  freeze,
  backends,
  wakeups,
  databaseRestart,
  databaseFreeze,
  databaseStall,
  databaseStallTerminate,
  databaseReadOnly,
  databaseLocks,
  databaseLimits,
  delay,
  blackHole,
  halfOpen,
  cut,
  clock,
  slowSubscriber,
  vanishingSubscriber,
  lethalRequest,
  blockingRequest,
];

/** Between two faults, in ms, for four replicas: 4.75 s on average, so that half an hour has more than 300. */
const LEAST_MS = 2_500;
const MOST_MS = 7_000;

/** The cluster is whole at first, and after this long before the end no fault begins. */
const START_MS = 1_000;

export interface ScheduleOptions {
  readonly seed: number;
  readonly seconds: number;
  readonly replicas: number;
  readonly pace: number;
  /** Of these kinds only; none: of all. */
  readonly faults: readonly string[];
}

/** All faults of a run. They are drawn from the seed and these options alone: nothing that happens changes them. */
export function scheduleOf({ seed, seconds, replicas, pace, faults }: ScheduleOptions): PlannedFault[] {
  const random = new Random(seed);
  const kinds = kindsOf(faults);
  const names = namesOf(replicas);
  const behindProxy = names.filter((_, at) => hasNetwork(at));
  const schedule: PlannedFault[] = [];
  const step = () => random.between(LEAST_MS, MOST_MS) / pace;
  for (let atMs = START_MS; atMs < seconds * 1000; atMs += step()) {
    const fault = random.weighted(kinds);
    const replica = random.pick(fault.hits === 'network' ? behindProxy : names);
    schedule.push({
      number: schedule.length + 1,
      atMs: Math.round(atMs),
      kind: fault.kind,
      replica: fault.hits === 'database' ? undefined : replica,
      ...fault.draw(random),
    });
  }
  return schedule;
}

export function faultOf(kind: string): Fault {
  const found = FAULTS.find((fault) => fault.kind === kind);
  if (!found) throw new Error(`There is no fault ${kind}: there are ${FAULTS.map((it) => it.kind).join(', ')}`);
  return found;
}

/** One line: when, what, whom. */
export function describe({ number, atMs, kind, replica, forMs, form }: PlannedFault): string {
  const about = [replica, form, forMs > 0 ? `${forMs} ms` : ''].filter((word) => word).join(', ');
  return `${String(number).padStart(4)}  ${(atMs / 1000).toFixed(1).padStart(7)} s  ${kind}${about && ` (${about})`}`;
}

const kindsOf = (faults: readonly string[]): readonly Fault[] => (faults.length === 0 ? FAULTS : faults.map(faultOf));
