import type { ReplicaEnvironment, ReplicaProcess } from '../../tools/harness/replica-process.js';

/** What a replica needs in its environment for {@link usageOf}. */
export const REPORTS_USAGE: ReplicaEnvironment = {
  NODE_OPTIONS: `--expose-gc --import ${new URL('./usage-report.preload.mjs', import.meta.url).href}`,
};

/** What a replica holds at a moment. */
export interface Usage {
  /** Heap and external memory that are in use after a garbage collection: unlike RSS the same from run to run. */
  memoryBytes: number;
  /** HTTP exchanges that have not ended. */
  openResponses: number;
  /** The clients' ports of the HTTP connections that are open, idle ones included. */
  ports: number[];
}

/** Asks a replica that was started with {@link REPORTS_USAGE}; one question to a replica at a time. */
export async function usageOf(process: ReplicaProcess): Promise<Usage> {
  const number = process.output.filter((line) => line.startsWith('usage ')).length + 1;
  await process.kill('SIGUSR2');
  const [, usage = ''] = await process.waitForLine(new RegExp(`^usage ${number} (.+)`));
  return JSON.parse(usage) as Usage;
}
