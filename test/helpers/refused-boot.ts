import { spawn } from 'node:child_process';
import { builtTool } from '../../tools/harness/built-tool.js';
import { onCleanUp } from './clean-up.js';
import { within } from './wait.js';

const ENTRY = builtTool('replica/main.js');

/** What a replica left behind that was not to start. */
export interface RefusedBoot {
  code: number | null;
  stdout: string;
  stderr: string;
}

/** Runs a replica with this environment, and no other, until it ends by itself. */
export async function refusedBoot(env: Record<string, string>, timeoutMs = 60_000): Promise<RefusedBoot> {
  const { PATH = '' } = process.env;
  const child = spawn(process.execPath, [ENTRY], { env: { PATH, ...env }, stdio: ['ignore', 'pipe', 'pipe'] });
  const forget = onCleanUp(() => void child.kill('SIGKILL'));
  const outcome: RefusedBoot = { code: null, stdout: '', stderr: '' };
  child.stdout.on('data', (chunk) => (outcome.stdout += String(chunk)));
  child.stderr.on('data', (chunk) => (outcome.stderr += String(chunk)));
  const closed = new Promise<void>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code) => {
      outcome.code = code;
      resolve();
    });
  });
  try {
    await within(closed, timeoutMs, () => `the replica ends: ${JSON.stringify(outcome)}`);
  } finally {
    child.kill('SIGKILL');
    forget();
  }
  return outcome;
}
