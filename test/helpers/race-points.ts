import type { RacePoint } from '../../libs/a2a-cluster/src/race-points/race-points.js';
import { ArmingFile } from './arming-file.js';
import type { ReplicaEnvironment, ReplicaProcess } from '../../tools/harness/replica-process.js';

const PRELOAD = new URL('./race-points.preload.mjs', import.meta.url).href;

/** What happens to a replica at a race point: it is killed, or stands still until it is thawed. */
export type RaceSignal = 'SIGKILL' | 'SIGSTOP';

/** A replica that can be made to send itself a signal when it passes a given point of the library's code. */
export class RacePoints {
  private readonly file = new ArmingFile('race-points');

  /** What the replica has to be started with. */
  get environment(): ReplicaEnvironment {
    return { NODE_OPTIONS: `--import ${PRELOAD}`, RACE_POINTS_FILE: this.file.path };
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
    const orders = JSON.stringify({ point, signal, skip });
    const passed = await this.file.arm(replica, orders, `${signal} at ${point}`, timeoutMs);
    const hit = async (): Promise<void> => {
      await passed().catch((cause: unknown) => {
        throw new Error(`Replica ${replica.name} did not pass ${point}`, { cause });
      });
    };
    return { hit };
  }
}
