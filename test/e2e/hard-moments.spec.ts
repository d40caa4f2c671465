import type { CanActivate } from '@nestjs/common';
import { UseGuards } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { cancel, errorOf, send } from '../../tools/harness/client.js';
import { stateName } from '../helpers/recording.js';
import { Deferred, within } from '../../tools/harness/wait.js';
import { agentOf, AgentAppFixture } from './agent-app.fixture.js';
import { completed, textOf, working } from './agent-events.js';

const fixture = new AgentAppFixture();

describe('An executor throws what cannot be made into text', () => {
  test.each([
    ['an object without a prototype', Object.create(null) as unknown],
    ['nothing', undefined],
  ])('B.6 I6 %s, before its first commit has returned: FAILED, and no lease is left', async (_what, thrown) => {
    const app = await fixture.start({
      execute: (context, bus) => {
        working(bus, context);
        throw thrown;
      },
    });
    const task = await send(await app.client(), 'hello');
    expect(stateName(task)).toBe('FAILED');
    expect(textOf(task.status?.message)).toMatch(/^The agent failed: ./);
    expect(await fixture.database.query('SELECT FROM a2a_task_leases')).toEqual([]);
  });
});

test('B.17 a cancel goes through although turns hold every connection of the app', async () => {
  const holding = new Deferred();
  let held = 0;
  const app = await fixture.start({
    dataSource: { poolSize: 2 },
    cluster: { leases: { heartbeatIntervalMs: 1_000, ttlMs: 60_000 } },
    execute: async (context, bus) => {
      working(bus, context);
      await context.turn.flush();
      await app.nest.get(DataSource).transaction(async (manager) => {
        await manager.query('SELECT 1');
        held += 1;
        if (held === 2) holding.resolve();
        await new Promise((resolve) => context.turn.signal.addEventListener('abort', resolve, { once: true }));
        // What the agent says while it holds a connection finds one of the library's.
        await context.turn.flush().catch(() => undefined);
      });
    },
  });
  const client = await app.client();
  const begin = () => send(client, 'hold', { configuration: { returnImmediately: true } });
  const [one, other] = [await begin(), await begin()];
  await within(holding.promise, 20_000, 'both turns hold a connection');
  for (const { id } of [one, other]) expect(stateName(await cancel(client, id))).toBe('CANCELED');
});

test('B.5 agents that flush while they hold every connection of the app go on', async () => {
  let inside = 0;
  const both = new Deferred();
  const app = await fixture.start({
    dataSource: { poolSize: 2 },
    execute: async (context, bus) => {
      await app.nest.get(DataSource).transaction(async (manager) => {
        await manager.query('SELECT 1');
        inside += 1;
        if (inside === 2) both.resolve();
        await both.promise;
        working(bus, context);
        await context.turn.flush();
      });
      completed(bus, context);
    },
  });
  const client = await app.client();
  const tasks = await Promise.all([send(client, 'a'), send(client, 'b')]);
  expect(tasks.map(stateName)).toEqual(['COMPLETED', 'COMPLETED']);
});

test('I6 a guard that never answers holds its message up for no longer than a turn may take', async () => {
  class Hangs implements CanActivate {
    canActivate(): Promise<boolean> {
      return new Promise(() => undefined);
    }
  }
  const executor = agentOf({ execute: (context, bus) => completed(bus, context) });
  UseGuards(Hangs)(executor);
  const app = await fixture.start({ cluster: { executor, turns: { maxTurnDurationMs: 300 } } });
  const error = await within(errorOf(send(await app.client(), 'hello')), 20_000, 'the message is answered');
  expect(error.message).toMatch(/Internal error/);
});
