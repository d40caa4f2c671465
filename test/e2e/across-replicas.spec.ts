import type { Client } from '@a2a-js/sdk/client';
import { cancel, getTask, send } from '../../tools/harness/client.js';
import { eventually } from '../../tools/harness/wait.js';
import { LedgerModule } from '../../tools/scripted-agent/ledger/ledger.module.js';
import { ScriptedAgent } from '../../tools/scripted-agent/scripted-agent.executor.js';
import { Recording, stateName, summaryOf } from '../helpers/recording.js';
import { blockedBackend, lockTask, STATEMENTS } from '../helpers/sessions.js';
import { expectEnded, expectFollowed, expectSound, readLog, userMessages } from '../helpers/task-log.js';
import { AgentAppFixture } from './agent-app.fixture.js';

const fixture = new AgentAppFixture({ for: 'file' });

/** The scripted agent at three replicas, over both transports: what clients of any of them are told of one task. */
describe('Three replicas of one agent', () => {
  let clients: Client[] = [];

  beforeAll(async () => {
    const cluster = { executor: ScriptedAgent, imports: [LedgerModule.forRoot(fixture.database.url)] };
    const apps = await Promise.all([
      fixture.start({ cluster }),
      fixture.start({ cluster }),
      fixture.start({ cluster }),
    ]);
    clients = await Promise.all(apps.map((app, at) => app.client({ transport: at === 1 ? 'HTTP+JSON' : 'JSONRPC' })));
  });

  const log = (taskId: string) => readLog(fixture.database, taskId);

  it('O7 a subscriber at another replica gets the snapshot, then each event once and in order, to the end', async () => {
    const atA = clients[0]!;
    const followed = (taskId: string) => clients.map((client) => Recording.subscribe(client, taskId));
    const sender = Recording.send(atA, 'stream 100 10\nask go on?');
    const { id } = await sender.task();
    const early = followed(id);
    await sender.waitFor((_, at) => at === 50);
    const late = followed(id);
    // On a busy machine one may come only when the turn is over; none misses the end of the task.
    await Promise.all([...early, ...late].map((recording) => recording.task()));
    await sender.finished();
    const { version } = await log(id);
    await send(atA, 'stream 20 10', { taskId: id });

    const stored = await log(id);
    expectEnded(stored, 'COMPLETED');
    expectFollowed(sender.responses, stored, version);
    for (const recording of [...early, ...late]) expectFollowed(await recording.finished(), stored);
  });

  it.each(['streaming', 'blocking'])('O11 a %s sender disconnects during the terminal save', async (kind) => {
    const [atA, atB, atC] = clients as [Client, Client, Client];
    const { id } = await send(atB, 'ask go on?');
    const watcher = Recording.subscribe(atC, id);
    await watcher.task();
    const connection = new AbortController();
    const text = 'stream 1 1000';
    const recording = kind === 'streaming' ? Recording.send(atA, text, { taskId: id }) : undefined;
    const answer = recording ?? send(atA, text, { taskId: id, signal: connection.signal }).catch(() => undefined);
    await watcher.waitFor((response) => summaryOf(response).startsWith('artifact'));
    const lock = await lockTask(fixture.database, id);
    try {
      await blockedBackend(fixture.database, STATEMENTS.append);
      connection.abort();
      await recording?.disconnect();
      await answer;
    } finally {
      await lock.release();
    }

    await watcher.finished();
    await eventually(async () => stateName(await getTask(atB, id)) === 'COMPLETED');
    const stored = await log(id);
    expectEnded(stored, 'COMPLETED');
    expectFollowed(watcher.responses, stored);
  });

  it('O16 O50 an `ask` answered by an `ask` at whichever replica is faster: every accepted message once', async () => {
    const { id } = await send(clients[0]!, 'ask 0?');
    const accepted: string[] = [];
    const refused: string[] = [];
    for (let round = 0; round < 10; round += 1) {
      const texts = clients.map((_, at) => `ask ${round} at ${at}?`);
      const answers = await Promise.allSettled(clients.map((client, at) => send(client, texts[at]!, { taskId: id })));
      answers.forEach(({ status }, at) => (status === 'fulfilled' ? accepted : refused).push(texts[at]!));
    }
    const stored = await log(id);
    expectSound(stored);
    expect(stored).toMatchObject({ state: 'INPUT_REQUIRED', leases: 0 });
    expect(accepted.length).toBeGreaterThanOrEqual(10);
    for (const text of accepted) expect(userMessages(stored, text)).toBe(1);
    for (const text of refused) expect(userMessages(stored, text)).toBe(0);
    await cancel(clients[0]!, id);
  });
});
