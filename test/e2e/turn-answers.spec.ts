import { TaskState } from '@a2a-js/sdk';
import { errorName, getTask, send, stream } from '../../tools/harness/client.js';
import { Recording, stateName, summaryOf } from '../helpers/recording.js';
import { Deferred, eventually } from '../../tools/harness/wait.js';
import { AgentAppFixture, type AgentBehaviour, TRANSPORTS } from './agent-app.fixture.js';
import { completed, inputRequired, publishStatus, textOf, working } from './agent-events.js';
import { heldAgent } from './agents.js';

const fixture = new AgentAppFixture();

/** Says AUTH_REQUIRED, and goes on when it is let. */
function authAgent(release: Deferred): AgentBehaviour {
  return {
    execute: async (context, bus) => {
      working(bus, context);
      publishStatus(bus, context, TaskState.TASK_STATE_AUTH_REQUIRED, 'log in, please');
      await release.promise;
      completed(bus, context, 'done');
    },
  };
}

describe.each(TRANSPORTS)('What a sender is answered, over %s', (transport) => {
  test('a blocking send returns at INPUT_REQUIRED, a stream ends there', async () => {
    const app = await fixture.start({
      execute: (context, bus) => {
        working(bus, context);
        inputRequired(bus, context, 'which?');
      },
    });
    const client = await app.client({ transport });
    expect(stateName(await send(client, 'hello'))).toBe('INPUT_REQUIRED');
    const recording = Recording.send(client, 'hello');
    expect((await recording.finished()).map(summaryOf)).toEqual([
      'task SUBMITTED',
      'status WORKING',
      'status INPUT_REQUIRED',
    ]);
  });

  test('AUTH_REQUIRED: a blocking send returns, and the executor goes on', async () => {
    const release = new Deferred();
    const app = await fixture.start(authAgent(release));
    const client = await app.client({ transport });
    const task = await send(client, 'hello');
    expect(stateName(task)).toBe('AUTH_REQUIRED');
    expect(await fixture.database.query('SELECT * FROM a2a_task_leases')).toHaveLength(1);
    release.resolve();
    await eventually(async () => stateName(await getTask(client, task.id)) === 'COMPLETED');
  });

  test('AUTH_REQUIRED: a stream stays open to the end', async () => {
    const release = new Deferred();
    const app = await fixture.start(authAgent(release));
    const client = await app.client({ transport });
    const sender = Recording.send(client, 'hello');
    await sender.waitFor((response) => summaryOf(response) === 'status AUTH_REQUIRED');
    const subscriber = Recording.subscribe(client, (await sender.task()).id);
    await subscriber.task();
    release.resolve();
    expect((await sender.finished()).map(summaryOf)).toEqual([
      'task SUBMITTED',
      'status WORKING',
      'status AUTH_REQUIRED',
      'status COMPLETED',
    ]);
    expect((await subscriber.finished()).map(summaryOf)).toEqual(['task AUTH_REQUIRED', 'status COMPLETED']);
  });

  test('O19 AUTH_REQUIRED: the executor goes on by itself, who waits to answer is refused and leaves no trace', async () => {
    const release = new Deferred();
    const [a, b] = await fixture.startTwo({
      execute: async (context, bus) => {
        publishStatus(bus, context, TaskState.TASK_STATE_AUTH_REQUIRED, 'log in, please');
        await release.promise;
        working(bus, context);
        await context.turn.flush();
        await goOn.promise;
        completed(bus, context, 'never mind');
      },
    });
    const goOn = new Deferred();
    const [atA, atB] = [await a.client({ transport }), await b.client({ transport })];
    const { id: taskId } = await send(atA, 'hello');
    const recordings = [Recording.subscribe(atA, taskId), Recording.subscribe(atB, taskId)];
    for (const recording of recordings) expect(stateName(await recording.task())).toBe('AUTH_REQUIRED');
    const refused = errorName(send(atB, 'it is me', { taskId }));
    release.resolve();
    expect(await refused).toBe('UnsupportedOperationError');
    goOn.resolve();
    for (const recording of recordings) {
      expect((await recording.finished()).map(summaryOf)).toEqual([
        'task AUTH_REQUIRED',
        'status WORKING',
        'status COMPLETED',
      ]);
    }
    expect((await getTask(atB, taskId)).history.map(textOf)).not.toContain('it is me');
  });

  test('AUTH_REQUIRED: once execute has returned the task waits, and the stream sees the next turn too', async () => {
    const app = await fixture.start({
      execute: (context, bus) => {
        if (context.task) completed(bus, context, 'done');
        else publishStatus(bus, context, TaskState.TASK_STATE_AUTH_REQUIRED);
      },
    });
    const client = await app.client({ transport });
    const sender = Recording.send(client, 'hello');
    const { id: taskId } = await sender.task();
    await sender.waitFor((response) => summaryOf(response) === 'status AUTH_REQUIRED');
    expect(stateName(await send(client, 'logged in', { taskId }))).toBe('COMPLETED');
    expect((await sender.finished()).map(summaryOf)).toEqual([
      'task SUBMITTED',
      'status AUTH_REQUIRED',
      'status COMPLETED',
    ]);
  });

  test('returnImmediately on a follow-up answers with the task as it was admitted', async () => {
    const agent = heldAgent();
    const app = await fixture.start({
      execute: (context, bus) => (context.task ? agent.execute(context, bus) : inputRequired(bus, context, 'which?')),
    });
    const client = await app.client({ transport });
    const { id: taskId } = await send(client, 'hello');
    const task = await send(client, 'this', { taskId, configuration: { returnImmediately: true } });
    expect(task.history.map(textOf)).toEqual(['hello', 'which?', 'this']);
    agent.release.resolve();
    await eventually(async () => stateName(await getTask(client, taskId)) === 'COMPLETED');
  });

  test('historyLength bounds the history in every answer, and only there', async () => {
    const app = await fixture.start({ execute: (context, bus) => inputRequired(bus, context, 'and then?') });
    const client = await app.client({ transport });
    const { id: taskId } = await send(client, 'one');
    const task = await send(client, 'two', { taskId, configuration: { historyLength: 2 } });
    expect(task.history.map(textOf)).toEqual(['two', 'and then?']);
    const none = await send(client, 'three', { taskId, configuration: { historyLength: 0 } });
    expect(none.history).toEqual([]);
    const recording = Recording.send(client, 'four', { taskId, configuration: { historyLength: 1 } });
    expect((await recording.task()).history.map(textOf)).toEqual(['four']);
    await recording.finished();
    expect((await getTask(client, taskId, 3)).history.map(textOf)).toEqual(['and then?', 'four', 'and then?']);
    expect((await getTask(client, taskId, 0)).history).toEqual([]);
    expect((await getTask(client, taskId)).history).toHaveLength(8);
    expect((await getTask(client, taskId, 100)).history).toHaveLength(8);
  });

  test('O11 the sender of a stream disconnects mid-turn: the turn goes on', async () => {
    const agent = heldAgent();
    const app = await fixture.start(agent);
    const client = await app.client({ transport });
    const sender = Recording.send(client, 'hello');
    const { id } = await sender.task();
    await agent.started.promise;
    expect(await sender.disconnect()).toEqual({ how: 'disconnected' });
    agent.release.resolve();
    await eventually(async () => stateName(await getTask(client, id)) === 'COMPLETED');
  });

  test('O11 the sender of a blocking message disconnects mid-turn: the turn goes on', async () => {
    const agent = heldAgent();
    const app = await fixture.start(agent);
    const client = await app.client({ transport });
    const connection = new AbortController();
    const sending = send(client, 'hello', { signal: connection.signal });
    await agent.started.promise;
    connection.abort();
    await expect(sending).rejects.toThrow();
    agent.release.resolve();
    await eventually(async () => {
      const [task] = await fixture.database.query<{ state: string }>(
        'SELECT state FROM a2a_tasks ORDER BY task_no DESC LIMIT 1',
      );
      return task?.state === 'TASK_STATE_COMPLETED';
    });
  });

  test('O18 a follow-up at B while A works is refused; a later subscriber at B follows the log', async () => {
    const agent = heldAgent();
    const [a, b] = await fixture.startTwo(agent);
    const [atA, atB] = [await a.client({ transport }), await b.client({ transport })];
    const sender = Recording.send(atA, 'hello');
    const { id: taskId } = await sender.task();
    await agent.started.promise;
    expect(await errorName(send(atB, 'more', { taskId }))).toBe('UnsupportedOperationError');
    expect(await errorName(stream(atB, 'more', { taskId }))).toBe('UnsupportedOperationError');
    expect(await errorName(send(atA, 'more', { taskId }))).toBe('UnsupportedOperationError');
    const subscriber = Recording.subscribe(atB, taskId);
    expect(stateName(await subscriber.task())).toBe('WORKING');
    agent.release.resolve();
    expect((await subscriber.finished()).map(summaryOf)).toEqual(['task WORKING', 'status COMPLETED']);
    await sender.finished();
    expect((await getTask(atB, taskId)).history.map(textOf)).toEqual(['hello', 'done']);
  });

  test('O7 O9 O10 a subscriber at B sees both turns, the one at A and the one at B, and runs nothing', async () => {
    const [a, b] = await fixture.startTwo({
      execute: (context, bus) => {
        working(bus, context);
        if (context.task) completed(bus, context, 'done');
        else inputRequired(bus, context, 'which?');
      },
    });
    const [atA, atB] = [await a.client({ transport }), await b.client({ transport })];
    const { id: taskId } = await send(atA, 'hello');
    const recordings = [Recording.subscribe(atA, taskId), Recording.subscribe(atB, taskId)];
    await Promise.all(recordings.map((recording) => recording.task()));
    expect(stateName(await send(atB, 'this', { taskId }))).toBe('COMPLETED');
    for (const recording of recordings) {
      expect((await recording.finished()).map(summaryOf)).toEqual([
        'task INPUT_REQUIRED',
        'status WORKING',
        'status COMPLETED',
      ]);
    }
  });
});
