import { availableParallelism, cpus, totalmem } from 'node:os';

/** What the figures depend on; nothing that says where. */
export interface MachineFacts {
  cores: number;
  processor: string;
  memoryGiB: number;
  node: string;
  postgres: string;
}

export function machineFacts(postgresVersion: string): MachineFacts {
  return {
    cores: availableParallelism(),
    processor: cpus()[0]?.model.trim() ?? 'unknown',
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    node: process.versions.node,
    postgres: /^[\d.]+/.exec(postgresVersion)?.[0] ?? postgresVersion,
  };
}
