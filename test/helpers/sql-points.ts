import type { ReplicaEnvironment, ReplicaProcess } from './replica-process.js';
import { eventually } from './wait.js';

const PRELOAD = new URL('./sql-points.preload.mjs', import.meta.url).href;

/** Environment of a replica that can be held up before statements of this pattern, once for each {@link armPause}. */
export function pausingBefore(pattern: string, rewrites: [string, string][] = []): ReplicaEnvironment {
  return { NODE_OPTIONS: `--import ${PRELOAD}`, PAUSE_BEFORE: pattern, REWRITE_SQL: JSON.stringify(rewrites) };
}

/** The next statement of its pattern finds the process standing still (SIGSTOP): `paused()` waits for that. */
export async function armPause(
  replica: ReplicaProcess,
  timeoutMs: number,
): Promise<{ paused: () => Promise<boolean> }> {
  const count = (what: string): number => replica.output.filter((line) => line === `sql-points: ${what}`).length;
  const [armings, pauses] = [count('armed'), count('paused')];
  await replica.kill('SIGUSR2');
  await eventually(() => count('armed') > armings, { timeoutMs });
  return { paused: () => eventually(() => count('paused') > pauses, { timeoutMs }) };
}
