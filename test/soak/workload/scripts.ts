import type { Random } from '../random.js';

/** What a turn may be made of, and how often: every command of the scripted agent that its process survives. */
const COMMANDS: readonly { readonly weight: number; readonly line: (random: Random) => string }[] = [
  { weight: 3, line: (random) => `say number ${random.between(1, 1000)}` },
  { weight: 4, line: (random) => `work ${random.between(2, 20) / 10}` },
  {
    weight: 4,
    line: (random) => `stream ${random.between(3, 25)} ${random.between(10, 80)} ${random.between(0, 200)}`,
  },
  { weight: 1, line: (random) => `deaf ${random.between(2, 8) / 10}` },
  { weight: 1.5, line: (random) => `charge ${random.between(1, 99)} never ${random.between(0, 600)}` },
  { weight: 1.5, line: (random) => `charge ${random.between(1, 99)} idempotent ${random.between(0, 600)}` },
  { weight: 1, line: (random) => `charge ${random.between(1, 99)} reconcile ${random.between(0, 600)}` },
  { weight: 2, line: (random) => `transfer ${random.between(1, 99)} ${random.between(0, 500)}` },
  { weight: 0.2, line: () => 'block 0.1' },
];

/** How a script ends: most complete. */
const ENDS: readonly { readonly weight: number; readonly line: string }[] = [
  { weight: 20, line: '' },
  { weight: 1, line: 'throw that went wrong' },
  { weight: 0.5, line: 'charge 0 sometimes' }, // cannot be understood
];

/** A few commands that run to an end. */
export function anyScript(random: Random): string {
  const lines = Array.from({ length: random.between(1, 4) }, () => random.weighted(COMMANDS).line(random));
  return [...lines, random.weighted(ENDS).line].filter((line) => line !== '').join('\n');
}
