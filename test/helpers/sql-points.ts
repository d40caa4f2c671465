import { ArmingFile } from './arming-file.js';
import type { ReplicaEnvironment, ReplicaProcess } from '../../tools/harness/replica-process.js';

const PRELOAD = new URL('./sql-points.preload.mjs', import.meta.url).href;

/** A replica that can be made to stand still (SIGSTOP) before a given statement, and without some of its guards. */
export class SqlPoints {
  private readonly file = new ArmingFile('sql-points');

  /** @param rewrites what is replaced in every statement, to take a guard away */
  constructor(private readonly rewrites: [pattern: string, replacement: string][] = []) {}

  /** What the replica has to be started with. */
  get environment(): ReplicaEnvironment {
    return {
      NODE_OPTIONS: `--import ${PRELOAD}`,
      SQL_POINTS_FILE: this.file.path,
      SQL_POINTS_REWRITES: JSON.stringify(this.rewrites),
    };
  }

  /**
   * The next statement that the pattern matches, in its text and the JSON of its parameters, finds the process standing
   * still. What is returned waits for that.
   */
  async arm(replica: ReplicaProcess, pattern: string, timeoutMs: number): Promise<{ paused: () => Promise<boolean> }> {
    return { paused: await this.file.arm(replica, pattern, 'paused', timeoutMs) };
  }
}
