import { execFile } from 'node:child_process';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import type { AgentCard } from '@a2a-js/sdk';
import { type AgentExecutor, DefaultRequestHandler } from '@a2a-js/sdk/server';
import { DatabaseTaskStore } from '@a2a-js/sdk/server/database';
import { Kysely, PostgresDialect } from 'kysely';
import { runScript } from '../agent/script.js';
import { contenderPool } from '../environment.js';
import type { AgentServer } from './agent-server.js';

const run = promisify(execFile);

/** The SDK's own handler and database store, as its documentation sets them up: one replica, no leases, no event log. */
export async function startPeer(url: string): Promise<AgentServer> {
  let release!: () => void;
  const released = new Promise<void>((resolve) => (release = resolve));
  await createPeerTables(url);
  const db = new Kysely<unknown>({ dialect: new PostgresDialect({ pool: contenderPool(url) }) });
  const executor: AgentExecutor = {
    // Its handler stores each event by itself: there is nothing to wait for between two of them.
    execute: (context, bus) => runScript(context, bus, { released, stored: () => Promise.resolve() }),
    cancelTask: () => Promise.resolve(),
  };
  const handler = new DefaultRequestHandler(CARD, new DatabaseTaskStore(db), executor);
  return { handler, release, close: () => db.destroy() };
}

/** By the SDK's own tool; it is run once for a database. */
async function createPeerTables(url: string): Promise<void> {
  const store = createRequire(import.meta.url).resolve('@a2a-js/sdk/server/database');
  await run(process.execPath, [join(dirname(store), '../../cli/a2a_db.js'), 'upgrade'], {
    env: { ...process.env, DATABASE_URL: url },
  });
}

const CARD: AgentCard = {
  name: 'bench agent',
  description: 'publishes what its message says',
  version: '1.0.0',
  capabilities: { streaming: true, pushNotifications: false, extensions: [], extendedAgentCard: false },
  supportedInterfaces: [],
  provider: undefined,
  securitySchemes: {},
  securityRequirements: [],
  defaultInputModes: ['text/plain'],
  defaultOutputModes: ['text/plain'],
  skills: [],
  signatures: [],
};
