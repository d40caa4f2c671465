import { randomUUID } from 'node:crypto';
import { rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { RacePoint } from '../../libs/a2a-cluster/src/race-points/race-points.js';
import { onCleanUp } from './clean-up.js';
import type { ReplicaEnvironment, ReplicaProcess } from './replica-process.js';
import { eventually } from './wait.js';

const PRELOAD = new URL('./race-points.preload.mjs', import.meta.url).href;

/** What happens to a replica at a race point: it is killed, or stands still until it is thawed. */
export type RaceSignal = 'SIGKILL' | 'SIGSTOP';

/** A replica that can be made to send itself a signal when it passes a given point of the library's code. */
export class RacePoints {
  private readonly file = join(tmpdir(), `race-points-${randomUUID()}`);

  constructor() {
    onCleanUp(() => rmSync(this.file, { force: true }));
  }

  /** What the replica has to be started with. */
  get environment(): ReplicaEnvironment {
    return { NODE_OPTIONS: `--import ${PRELOAD}`, RACE_POINTS_FILE: this.file };
  }

  /**
   * The replica sends itself the signal the next time it passes the point, or once `skip` passings have gone by. What is
   * returned waits for that.
   */
  async arm(
    replica: ReplicaProcess,
    point: RacePoint,
    signal: RaceSignal,
    { skip = 0, timeoutMs = 10_000 } = {},
  ): Promise<{ hit: () => Promise<void> }> {
    const count = (what: string): number => replica.output.filter((line) => line === `race-points: ${what}`).length;
    const what = `${signal} at ${point}`;
    const [armings, hits] = [count('armed'), count(what)];
    writeFileSync(this.file, JSON.stringify({ point, signal, skip }));
    await replica.kill('SIGUSR2');
    await eventually(() => count('armed') > armings, { timeoutMs });
    const hit = async (): Promise<void> => {
      await eventually(() => count(what) > hits, { timeoutMs }).catch((cause: unknown) => {
        throw new Error(`Replica ${replica.name} did not pass ${point}`, { cause });
      });
    };
    return { hit };
  }
}
