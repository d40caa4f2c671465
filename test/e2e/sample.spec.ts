import type { INestApplication } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { AppModule } from '../../apps/sample/src/app.module.js';
import { dataSourceOptions, migrate } from '../../apps/sample/src/database.js';
import { reservePort } from '../../tools/harness/port.js';
import { cancel, clientFor, send } from '../../tools/harness/client.js';
import { createTestDatabase, type TestDatabase } from '../helpers/database.js';
import { Recording, stateName } from '../helpers/recording.js';
import { expectNothingLeft } from '../helpers/resource-check.js';
import { quietSdk } from './quiet-sdk.js';

/** The app that users copy, as its main.ts starts it: two replicas that migrate at the same time. */
describe('The sample', () => {
  const urls: string[] = [];
  const apps: INestApplication[] = [];
  const restoreConsole = quietSdk();
  let database: TestDatabase;

  beforeAll(async () => {
    database = await createTestDatabase();
    await Promise.all([startReplica(), startReplica()]);
  });

  afterAll(async () => {
    await Promise.all(apps.map((app) => app.close()));
    restoreConsole();
    await expectNothingLeft(database);
    await database.drop();
  });

  async function startReplica(): Promise<void> {
    const [host, port] = ['127.0.0.1', await reservePort('127.0.0.1')];
    const publicUrl = `http://${host}:${port}`;
    await migrate(dataSourceOptions(database.url));
    const config = { databaseUrl: database.url, host, port, publicUrl };
    const app = await NestFactory.create(AppModule.forRoot(config, publicUrl), { abortOnError: false, logger: false });
    await app.listen(port, host);
    apps.push(app);
    urls.push(publicUrl);
  }

  it('asks for a topic at one replica, and writes and files the report at another', async () => {
    const [a, b] = await Promise.all([clientFor(urls[0]!), clientFor(urls[1]!)]);
    const asked = await send(a, ' ');
    expect(stateName(asked)).toBe('INPUT_REQUIRED');
    const task = await send(b, 'tides', { taskId: asked.id });
    expect(stateName(task)).toBe('COMPLETED');
    expect(task.artifacts.map(({ parts }) => parts.length)).toEqual([3]);
    const [part] = task.status!.message!.parts;
    expect(part?.content?.value).toMatch(/^Filed as report [0-9a-f]{8}\.$/);
  });

  it('stops in the middle of a report when it is canceled at another replica', async () => {
    const [a, b] = await Promise.all([clientFor(urls[0]!), clientFor(urls[1]!)]);
    const report = Recording.send(a, 'tides');
    const { id } = await report.task();
    expect(stateName(await cancel(b, id))).toBe('CANCELED');
    expect((await report.finished()).length).toBeLessThan(5);
  });
});
