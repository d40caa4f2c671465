import { describeError } from '../../apps/sample/src/describe-error.js';
import { writeErrorLine, writeLine } from '../harness/output.js';
import { AgentClient, type Protocol } from './agent.client.js';
import { CleanUp, takeOverSignals } from '../harness/clean-up.js';
import { reservePort } from '../harness/port.js';
import { PostgresServer } from '../harness/postgres-server.js';
import { ReplicaProcess } from '../harness/replica-process.js';
import { EventLog } from './event-log.js';
import { expect } from './expect.js';
import { replicaEnvironment, type ReplicaSettings } from './replica-environment.js';
import { Replica, type RunningReplica } from './replica.js';
import type { Figures, Stage } from './stage.js';
import { type Demo, demoOf } from './stories.js';
import { since, Story } from './story.js';
import { PATIENCE_MS, TIMES } from './times.js';

const story = new Story();
const cleanUp = new CleanUp();
const figures: Record<string, Figures> = {};
const replicas: ReplicaProcess[] = [];
const startedAt = performance.now();
let finished = false;

async function play({ title, settings, steps }: Demo): Promise<void> {
  writeLine(`a2a-cluster: ${title}`);
  writeLine(`   heartbeat ${TIMES.heartbeat} ms, TTL ${TIMES.ttl} ms, sweep every ${TIMES.sweep} ms\n`);
  const stage = await setStage(settings);
  for (const [name, step] of Object.entries(steps)) figures[name] = await step(stage);
}

async function setStage(settings: ReplicaSettings): Promise<Stage> {
  const starting = PostgresServer.start({ findPort: reservePort });
  // A start that fails leaves nothing behind.
  cleanUp.add(() =>
    starting.then(
      (database) => database.stop(),
      () => undefined,
    ),
  );
  const database = await starting;
  story.tell('PostgreSQL', `port ${database.port}`, since(startedAt));
  const url = await database.createDatabase('a2a_demo');

  const start = (name: string, protocol: Protocol) =>
    Replica.start(name, () => startReplica(name, protocol, url, settings));
  const [a, b, c] = await Promise.all([start('A', 'JSONRPC'), start('B', 'HTTP+JSON'), start('C', 'JSONRPC')]);
  const log = await EventLog.open(url);
  cleanUp.add(() => log.close());
  return { a, b, c, log, story };
}

async function startReplica(
  name: string,
  protocol: Protocol,
  databaseUrl: string,
  settings: ReplicaSettings,
): Promise<RunningReplica> {
  expect(!cleanUp.begun, 'interrupted');
  const process = ReplicaProcess.spawn(name, { env: replicaEnvironment(databaseUrl, settings), detached: true });
  replicas.push(process);
  cleanUp.add(() => process.kill());
  const url = await process.serves(PATIENCE_MS);
  const client = await AgentClient.connect(name, url, protocol);
  story.tell(`replica ${name}`, `${url}, process ${process.pid}, spoken to in ${protocol}`, since(startedAt));
  return { process, url, client };
}

/** Ends the demo: cleans up, says how it went in one line of JSON, exits. Only the first call counts. */
async function finish(exitCode: number, reason?: string): Promise<void> {
  if (finished) return;
  finished = true;
  if (reason !== undefined) {
    writeErrorLine(`\n${reason}`);
    for (const { name, complaints } of replicas) {
      for (const line of complaints.slice(-5)) writeErrorLine(`   ${name}: ${line}`);
    }
  }
  writeLine('\ncleaning up …');
  await cleanUp.run();
  const outcome = reason === undefined ? { ok: true } : { ok: false, reason, step: story.current };
  writeLine(JSON.stringify({ ...outcome, steps: figures, totalMs: Math.round(since(startedAt)) }));
  process.exit(exitCode);
}

const demo = demoOf(process.argv.slice(2));
if (demo === undefined) {
  writeErrorLine(`there is no demo ${JSON.stringify(process.argv.slice(2).join(' '))}: name none, or effects`);
  process.exit(1);
}
takeOverSignals((signal, exitCode) => finish(exitCode, `interrupted by ${signal}`));
process.on('uncaughtException', (error) => void finish(1, describeError(error)));
await play(demo).then(
  () => finish(0),
  (error: unknown) => finish(1, describeError(error)),
);
