import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const AGENT = fileURLToPath(new URL('../helpers/forgetful-agent.process.mjs', import.meta.url));

test('A.3 an agent that awaits nothing of what it asks its turn for does not end the process', async () => {
  const { stdout } = await promisify(execFile)(process.execPath, [AGENT], {
    env: { ...process.env, NODE_OPTIONS: '' },
    timeout: 50_000,
  });
  expect(stdout).toBe('alive after 2 turns\n');
});
