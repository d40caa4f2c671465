import { randomUUID } from 'node:crypto';
import { rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onCleanUp } from './clean-up.js';
import type { ReplicaProcess } from '../../tools/harness/replica-process.js';
import { eventually } from '../../tools/harness/wait.js';

/** Tells what is preloaded into a replica what to do next: it reads this file at SIGUSR2, and says what it has done. */
export class ArmingFile {
  readonly path: string;

  /** @param name of the preload: its lines in the replica's output begin with it */
  constructor(private readonly name: string) {
    this.path = join(tmpdir(), `${name}-${randomUUID()}`);
    onCleanUp(() => rmSync(this.path, { force: true }));
  }

  /** Returns, once the replica is armed, what waits for the line that says `done`. */
  async arm(
    replica: ReplicaProcess,
    content: string,
    done: string,
    timeoutMs: number,
  ): Promise<() => Promise<boolean>> {
    const count = (what: string): number => replica.output.filter((line) => line === `${this.name}: ${what}`).length;
    const [armings, before] = [count('armed'), count(done)];
    writeFileSync(this.path, content);
    await replica.kill('SIGUSR2');
    await eventually(() => count('armed') > armings, { timeoutMs });
    return () => eventually(() => count(done) > before, { timeoutMs });
  }
}
