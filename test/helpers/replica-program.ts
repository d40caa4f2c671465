import { builtTool } from '../../tools/harness/built-tool.js';

/** The built replica: what a run's global set-up has made of it, or the build itself. */
export const REPLICA_PROGRAM = process.env.A2A_TEST_REPLICA ?? builtTool('replica/main.js');

const INHERITED = ['PATH', 'HOME', 'TMPDIR', 'LANG', 'TZ'];

/** Little of our own environment: Jest's NODE_OPTIONS, or somebody's DATABASE_URL, are not for a replica under test. */
export function inheritedEnvironment(): Record<string, string> {
  return Object.fromEntries(INHERITED.flatMap((name) => (process.env[name] ? [[name, process.env[name]]] : [])));
}
