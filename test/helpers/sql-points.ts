import { randomUUID } from 'node:crypto';
import { rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onCleanUp } from './clean-up.js';
import type { ReplicaEnvironment, ReplicaProcess } from './replica-process.js';
import { eventually } from './wait.js';

const PRELOAD = new URL('./sql-points.preload.mjs', import.meta.url).href;

/** A replica that can be made to stand still (SIGSTOP) before a given statement, and without some of its guards. */
export class SqlPoints {
  private readonly file = join(tmpdir(), `sql-points-${randomUUID()}`);

  /** @param rewrites what is replaced in every statement, to take a guard away */
  constructor(private readonly rewrites: [pattern: string, replacement: string][] = []) {
    onCleanUp(() => rmSync(this.file, { force: true }));
  }

  /** What the replica has to be started with. */
  get environment(): ReplicaEnvironment {
    return {
      NODE_OPTIONS: `--import ${PRELOAD}`,
      SQL_POINTS_FILE: this.file,
      SQL_POINTS_REWRITES: JSON.stringify(this.rewrites),
    };
  }

  /**
   * The next statement that the pattern matches, in its text and the JSON of its parameters, finds the process standing
   * still. What is returned waits for that.
   */
  async arm(replica: ReplicaProcess, pattern: string, timeoutMs: number): Promise<{ paused: () => Promise<boolean> }> {
    const count = (what: string): number => replica.output.filter((line) => line === `sql-points: ${what}`).length;
    const [armings, pauses] = [count('armed'), count('paused')];
    writeFileSync(this.file, pattern);
    await replica.kill('SIGUSR2');
    await eventually(() => count('armed') > armings, { timeoutMs });
    return { paused: () => eventually(() => count('paused') > pauses, { timeoutMs }) };
  }
}
