import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

const PACKAGE = createRequire(import.meta.url).resolve('a2a-cluster-sample/package.json');

/** The built sample: what a run's global set-up has made of it, or the build itself. */
export const SAMPLE_ENTRY = process.env.A2A_TEST_REPLICA ?? join(dirname(PACKAGE), 'dist/main.js');

const INHERITED = ['PATH', 'HOME', 'TMPDIR', 'LANG', 'TZ'];

/** Little of our own environment: Jest's NODE_OPTIONS, or somebody's DATABASE_URL, are not for a replica under test. */
export function inheritedEnvironment(): Record<string, string> {
  return Object.fromEntries(INHERITED.flatMap((name) => (process.env[name] ? [[name, process.env[name]]] : [])));
}
