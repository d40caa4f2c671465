import { Task, TaskState } from '@a2a-js/sdk';
import { AgentEvent } from '@a2a-js/sdk/server';
import { collect, getTask, send, stream } from '../../tools/harness/client.js';
import { stateName, summaryOf } from '../helpers/recording.js';
import { AgentAppFixture, TRANSPORTS } from './agent-app.fixture.js';
import {
  agentMessage,
  artifactOf,
  completed,
  inputRequired,
  publishArtifact,
  publishStatus,
  publishTask,
  taskOf,
  textOf,
  textPart,
  working,
} from './agent-events.js';

const fixture = new AgentAppFixture();

describe.each(TRANSPORTS)('What an executor publishes, over %s', (transport) => {
  test('I5 an executor that publishes no Task gets one made up, first in the stream, with the message', async () => {
    const app = await fixture.start({
      execute: (context, bus) => {
        working(bus, context);
        completed(bus, context, 'done');
      },
    });
    const client = await app.client({ transport });
    const responses = await collect(stream(client, 'hello'));
    expect(responses.map(summaryOf)).toEqual(['task SUBMITTED', 'status WORKING', 'status COMPLETED']);
    const first = responses[0]?.payload?.value as Task;
    expect(first.history.map(textOf)).toEqual(['hello']);
    const stored = await getTask(client, first.id);
    expect(stateName(stored)).toBe('COMPLETED');
    expect(stored.contextId).toBe(first.contextId);
    expect(stored.history.map(textOf)).toEqual(['hello', 'done']);
  });

  test("I5 an executor's own Task is the first response, completed with the message", async () => {
    const app = await fixture.start({
      execute: (context, bus) => {
        publishTask(bus, context, TaskState.TASK_STATE_WORKING, { metadata: { made: 'by the executor' } });
        completed(bus, context);
      },
    });
    const responses = await collect(stream(await app.client({ transport }), 'hello'));
    expect(responses.map(summaryOf)).toEqual(['task WORKING', 'status COMPLETED']);
    const first = responses[0]?.payload?.value as Task;
    expect(first.metadata).toEqual({ made: 'by the executor' });
    expect(first.history.map(textOf)).toEqual(['hello']);
  });

  test('I5 later Task events are delivered as the status and artifact updates they amount to', async () => {
    const app = await fixture.start({
      execute: (context, bus) => {
        publishTask(bus, context, TaskState.TASK_STATE_WORKING);
        const artifacts = [artifactOf('a1', textPart('one'))];
        publishTask(bus, context, TaskState.TASK_STATE_WORKING, { artifacts });
        publishTask(bus, context, TaskState.TASK_STATE_COMPLETED, { artifacts, metadata: { final: true } });
      },
    });
    const client = await app.client({ transport });
    const responses = await collect(stream(client, 'hello'));
    const seen = responses.map(summaryOf);
    expect(seen.filter((one) => one.startsWith('task'))).toHaveLength(1);
    expect(seen[0]).toBe('task WORKING');
    expect(seen.filter((one) => one === 'artifact a1')).toHaveLength(1);
    expect(seen.at(-1)).toBe('status COMPLETED');
    const stored = await getTask(client, (responses[0]?.payload?.value as Task).id);
    expect(stateName(stored)).toBe('COMPLETED');
    expect(stored.artifacts.map(({ artifactId }) => artifactId)).toEqual(['a1']);
    expect(stored.metadata).toEqual({ final: true });
    expect(stored.history.map(textOf)).toEqual(['hello']);
  });

  test('I2 a Task event that repeats the stored status sets nothing: the follow-up turn goes on', async () => {
    const app = await fixture.start({
      execute: (context, bus) => {
        if (!context.task) return inputRequired(bus, context, 'which?');
        // As the SDK's contract asks: the task first, also in a follow-up.
        bus.publish(AgentEvent.task(context.task));
        working(bus, context);
        completed(bus, context);
      },
    });
    const client = await app.client({ transport });
    const asked = await send(client, 'hello');
    expect(stateName(asked)).toBe('INPUT_REQUIRED');
    const responses = await collect(stream(client, 'this one', { taskId: asked.id }));
    expect(responses.map(summaryOf)).toEqual(['task INPUT_REQUIRED', 'status WORKING', 'status COMPLETED']);
    const stored = await getTask(client, asked.id);
    expect(stored.history.map(textOf)).toEqual(['hello', 'which?', 'this one']);
  });

  test("I5 an executor's requestContext.task is the task as it was admitted, with the message in its history", async () => {
    const tasks: (Task | undefined)[] = [];
    const app = await fixture.start({
      execute: (context, bus) => {
        tasks.push(context.task && structuredClone(context.task));
        inputRequired(bus, context, 'which?');
      },
    });
    const client = await app.client({ transport });
    const { id: taskId } = await send(client, 'one');
    await send(client, 'two', { taskId });
    expect(tasks[0]).toBeUndefined();
    expect(tasks[1]?.history.map(textOf)).toEqual(['one', 'which?', 'two']);
    expect(tasks[1] && stateName(tasks[1])).toBe('INPUT_REQUIRED');
  });

  test('an event for a foreign task is refused and fails the turn', async () => {
    const app = await fixture.start({
      execute: (context, bus) => {
        working(bus, context);
        completed(bus, { taskId: 'somebody-elses', contextId: context.contextId });
      },
    });
    const task = await send(await app.client({ transport }), 'hello');
    expect(stateName(task)).toBe('FAILED');
    expect(textOf(task.status?.message)).toContain('somebody-elses');
    expect(await fixture.database.query("SELECT * FROM a2a_tasks WHERE task_id = 'somebody-elses'")).toEqual([]);
  });

  test('I5 what is done to a published object afterwards changes nothing', async () => {
    const app = await fixture.start({
      execute: async (context, bus) => {
        const task = taskOf(context, TaskState.TASK_STATE_WORKING, { metadata: { kept: { deep: 'as published' } } });
        const artifact = artifactOf('a1', textPart('as published'));
        const message = agentMessage(context, 'as published');
        bus.publish(AgentEvent.task(task));
        publishArtifact(bus, context, artifact);
        const status = { state: TaskState.TASK_STATE_COMPLETED, message, timestamp: undefined };
        const { taskId, contextId } = context;
        bus.publish(AgentEvent.statusUpdate({ taskId, contextId, status, metadata: undefined }));
        task.metadata!.kept = 'changed';
        artifact.parts[0]!.content = { $case: 'text', value: 'changed' };
        message.parts.push(textPart('changed'));
        status.state = TaskState.TASK_STATE_FAILED;
        await context.turn.flush();
      },
    });
    const client = await app.client({ transport });
    const responses = await collect(stream(client, 'hello'));
    expect(JSON.stringify(responses)).not.toContain('changed');
    const stored = await getTask(client, (responses[0]?.payload?.value as Task).id);
    expect(JSON.stringify(stored)).not.toContain('changed');
    expect(stored.metadata).toEqual({ kept: { deep: 'as published' } });
    expect(stored.artifacts[0]?.parts[0]?.content).toEqual({ $case: 'text', value: 'as published' });
    expect(stateName(stored)).toBe('COMPLETED');
  });

  test('I4 what is published after the end is dropped, with one warning', async () => {
    const app = await fixture.start({
      execute: (context, bus) => {
        completed(bus, context, 'first end');
        publishArtifact(bus, context, artifactOf('late', textPart('late')));
        publishStatus(bus, context, TaskState.TASK_STATE_FAILED, 'second end');
        publishTask(bus, context, TaskState.TASK_STATE_WORKING);
      },
    });
    const client = await app.client({ transport });
    const responses = await collect(stream(client, 'hello'));
    expect(responses.map(summaryOf)).toEqual(['task SUBMITTED', 'status COMPLETED']);
    const stored = await getTask(client, (responses[0]?.payload?.value as Task).id);
    expect(stateName(stored)).toBe('COMPLETED');
    expect(stored.artifacts).toEqual([]);
    expect(fixture.logger.warnings.filter((line) => line.includes('Dropped'))).toHaveLength(1);
  });

  test('finished() seals the bus: what comes after is dropped, and the turn is unfinished', async () => {
    const app = await fixture.start({
      execute: (context, bus) => {
        working(bus, context);
        bus.finished();
        completed(bus, context);
      },
    });
    const task = await send(await app.client({ transport }), 'hello');
    expect(stateName(task)).toBe('FAILED');
    expect(fixture.logger.warnings.filter((line) => line.includes('Dropped'))).toHaveLength(1);
  });
});
