import { parseArgs } from 'node:util';
import { TIMES } from './times.js';

/** What a run is told. */
export interface ChaosOptions {
  readonly seconds: number;
  readonly seed: number;
  readonly replicas: number;
  /** How many agents the replicas are divided among. */
  readonly agents: number;
  /** Faults come so many times as often as usual. */
  readonly pace: number;
  /** Faults of these kinds only; none: all kinds. */
  readonly faults: readonly string[];
  /** A file to which the run appends its row of the table. */
  readonly summary: string | undefined;
  /** How many users there are for each replica. */
  readonly users: number;
  /** How long the second attempt of a turn waits, in ms. */
  readonly backoff: number;
  /** How long to wait for quiet at most, in seconds. */
  readonly quiet: number;
  /** Keeps the recording of a green run too. */
  readonly keep: boolean;
  /** Prints the schedule and ends. */
  readonly scheduleOnly: boolean;
  /** A copy of the library that replicas run instead of the one that was built. */
  readonly library: string | undefined;
}

export const USAGE =
  'npm run chaos -- [--seconds N] [--seed S] [--replicas N] [--agents N] [--pace N] [--faults a,b] [--users N] [--backoff MS] [--quiet N] ' +
  '[--summary FILE] [--keep] [--schedule-only]';

/** @throws {Error} one line, for arguments that cannot be used. */
export function readOptions(args: readonly string[]): ChaosOptions {
  const { values } = parseArgs({
    args: [...args],
    options: {
      seconds: { type: 'string', default: '60' },
      seed: { type: 'string', default: '1' },
      replicas: { type: 'string', default: '4' },
      agents: { type: 'string', default: '1' },
      pace: { type: 'string', default: '1' },
      faults: { type: 'string', default: '' },
      summary: { type: 'string' },
      library: { type: 'string' },
      users: { type: 'string', default: '3' },
      backoff: { type: 'string', default: String(TIMES.backoff) },
      quiet: { type: 'string', default: '90' },
      keep: { type: 'boolean', default: false },
      'schedule-only': { type: 'boolean', default: false },
    },
  });
  const replicas = whole('replicas', values.replicas, 1, 26);
  return {
    seconds: whole('seconds', values.seconds, 1, 86_400),
    seed: whole('seed', values.seed, 0, 2 ** 32 - 1),
    replicas,
    agents: whole('agents', values.agents, 1, replicas),
    pace: whole('pace', values.pace, 1, 20),
    faults: values.faults.split(',').filter((name) => name !== ''),
    summary: values.summary,
    library: values.library,
    users: whole('users', values.users, 1, 100),
    backoff: whole('backoff', values.backoff, 1, 60_000),
    quiet: whole('quiet', values.quiet, 1, 3_600),
    keep: values.keep,
    scheduleOnly: values['schedule-only'],
  };
}

function whole(name: string, value: string, least: number, most: number): number {
  const number = /^\d+$/.test(value) ? Number(value) : Number.NaN;
  if (number >= least && number <= most) return number;
  throw new Error(`--${name} must be a whole number from ${least} to ${most}, got ${JSON.stringify(value)}`);
}
