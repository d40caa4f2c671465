/**
 * Runs chaos against copies of the library that have been broken on purpose: each has to be found out within a minute,
 * and the copy that was not broken has to pass the same runs.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { rm } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { copyLibrary } from './library-copy.js';
import { type Mutation, MUTATIONS, type Replacement } from './mutations.js';

const CHAOS = fileURLToPath(new URL('../main.js', import.meta.url));
const LIMIT_MS = 60_000;
const QUIET = ['--quiet', '5'];

let current: ChildProcess | undefined;
let interrupted = false;

interface Verdict {
  readonly code: number | null;
  /** Whether all replicas came to serve; without that the run says nothing. */
  readonly served: boolean;
  /** From that moment on. */
  readonly tookMs: number;
  /** The invariants that were found broken, and how often. */
  readonly broken: Readonly<Record<string, number>>;
  readonly output: readonly string[];
}

const say = (text: string): void => void process.stdout.write(`${text}\n`);

async function chaos(replacements: readonly Replacement[], args: readonly string[]): Promise<Verdict> {
  const library = await copyLibrary(replacements);
  const begunAt = performance.now();
  try {
    const child: ChildProcess = spawn(process.execPath, [CHAOS, ...args, '--library', library.index], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    current = child;
    let text = '';
    let servesAt: number | undefined;
    child.stdout?.on('data', (chunk: Buffer) => {
      text += chunk.toString();
      // What it takes to boot says how busy the machine is, and nothing of the fault.
      if (/^\d+ replicas serve/m.test(text)) servesAt ??= performance.now();
    });
    const [code] = (await once(child, 'close')) as [number | null];
    const output = text.split('\n');
    const broken: Record<string, number> = {};
    for (const line of output) {
      const [, name] = /^VIOLATION (\S+)/.exec(line) ?? [];
      if (name !== undefined) broken[name] = (broken[name] ?? 0) + 1;
    }
    // What was found is said here; nobody reads the recordings of broken libraries.
    const [, folder] = /the recording is in (\S+)/.exec(text) ?? [];
    if (folder !== undefined) await rm(folder, { recursive: true, force: true });
    return { code, served: servesAt !== undefined, tookMs: performance.now() - (servesAt ?? begunAt), broken, output };
  } finally {
    current = undefined;
    await library.remove();
  }
}

const describe = ({ served, tookMs, broken }: Verdict): string => {
  if (!served) return 'its replicas did not come to serve';
  const names = Object.entries(broken).map(([name, count]) => `${name} ${count}`);
  return `${(tookMs / 1000).toFixed(0)} s, ${names.length > 0 ? names.join(', ') : 'nothing found'}`;
};

async function isCaught({ name, replacements, profile, breaks }: Mutation): Promise<boolean> {
  const verdict = await chaos(replacements, [...profile, ...QUIET]);
  // What else goes wrong says nothing of the mutation: it is one of its own promises that must be seen broken.
  const caught = verdict.code === 1 && breaks.some((invariant) => invariant in verdict.broken);
  const inTime = verdict.tookMs <= LIMIT_MS;
  say(`${caught && inTime ? 'caught' : caught ? 'CAUGHT TOO LATE' : 'NOT CAUGHT'}: ${name} (${describe(verdict)})`);
  const first = verdict.output.find((line) => breaks.some((invariant) => line.startsWith(`VIOLATION ${invariant} `)));
  if (first !== undefined) say(`   ${first}`);
  return caught && inTime;
}

async function isGreen(profile: readonly string[]): Promise<boolean> {
  const verdict = await chaos([], profile);
  say(
    `${verdict.code === 0 ? 'green' : 'NOT GREEN'}: the library as it is, ${profile.join(' ')} (${describe(verdict)})`,
  );
  if (verdict.code !== 0) say(verdict.output.join('\n'));
  return verdict.code === 0;
}

for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => {
    interrupted = true;
    current?.kill(signal);
  });
}

const wanted = process.argv[2] ?? '';
const chosen = MUTATIONS.filter(({ name }) => name.includes(wanted));
const profiles = [...new Set(chosen.map(({ profile }) => profile))];
const runs: (() => Promise<boolean>)[] = [
  ...chosen.map((mutation) => () => isCaught(mutation)),
  ...profiles.map((profile) => () => isGreen(profile)),
];
let ok = runs.length > 0;
for (const run of runs) if (!interrupted) ok = (await run()) && ok;
process.exitCode = ok && !interrupted ? 0 : 1;
