import { useCluster } from './cluster.fixture.js';
import { nextAttempt } from './effects.fixture.js';
import { artifact, artifactsOf, COMPLETED, status, taskEvent } from './events.fixture.js';

describe('Artifacts of a turn that is run again', () => {
  const cluster = useCluster();

  it('O36 the first chunk replaces what the lost attempt left, the others are appended', async () => {
    const first = await (await cluster.replica()).working();
    const { scope } = first;
    for (const text of ['1', '2', '3']) first.loop.add(artifact(scope, 'a', text, true));
    await first.turn.flush();
    const second = await nextAttempt(cluster, first);
    for (const text of ['1', '2']) second.loop.add(artifact(scope, 'a', text, true));
    second.loop.add(status(scope, COMPLETED));
    await second.turn.flush();
    expect(artifactsOf((await (await cluster.replica()).tasks.find(scope))!.task)).toEqual({ a: '12' });
  });

  it('O36 an executor that publishes the task it was given, as it stands, begins its artifacts anew all the same', async () => {
    const first = await (await cluster.replica()).working();
    const { scope } = first;
    for (const text of ['1', '2']) first.loop.add(artifact(scope, 'a', text, true));
    await first.turn.flush();
    const given = (await (await cluster.replica()).tasks.find(scope))!.task;
    const second = await nextAttempt(cluster, first);
    second.loop.add(taskEvent(scope, { artifacts: given.artifacts }));
    for (const text of ['1', '2', '3']) second.loop.add(artifact(scope, 'a', text, true));
    second.loop.add(status(scope, COMPLETED));
    await second.turn.flush();
    expect(artifactsOf((await (await cluster.replica()).tasks.find(scope))!.task)).toEqual({ a: '123' });
  });
});
