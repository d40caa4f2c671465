import type { Measurements, Record } from './measurements.js';

/**
 * Rounds in which everybody has a turn, beginning with another one each time, so that no one always runs first or right
 * after the same other. Before them comes a round that does not count: plans, caches and compiled code are warm then.
 */
export async function interleaved<T>(
  rounds: number,
  entrants: readonly T[],
  measured: Measurements,
  run: (entrant: T, record: Record) => Promise<void>,
): Promise<void> {
  const discard: Record = () => undefined;
  for (let round = 0; round <= rounds; round += 1) {
    for (const entrant of rotated(entrants, round)) await run(entrant, round === 0 ? discard : measured.record);
  }
}

export const rotated = <T>(items: readonly T[], by: number): T[] =>
  items.map((_, at) => items[(at + by) % items.length]!);
