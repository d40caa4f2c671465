import type { Json } from '../recording.js';
import { type Actor, isOver, pause } from './actor.js';
import { userMessage } from '../../../tools/harness/client.js';
import { anyScript } from './scripts.js';

/** What a user does with a task. */
export interface Scenario {
  readonly name: string;
  readonly weight: number;
  play(actor: Actor): Promise<void>;
}

const seconds = (actor: Actor, least: number, most: number): number => actor.random.between(least * 10, most * 10) / 10;

const taskIdOf = (event: Json): string | undefined => (event.task as { id?: string } | undefined)?.id;

export const SCENARIOS: readonly Scenario[] = [
  {
    name: 'waits for the answer',
    weight: 4,
    async play(actor) {
      await actor.deliver(actor.request(anyScript(actor.random)));
    },
  },
  {
    name: 'streams, with watchers elsewhere',
    weight: 6,
    async play(actor) {
      const watchers: Promise<void>[] = [];
      let taskId: string | undefined;
      const onEvent = (event: Json) => {
        const id = taskIdOf(event);
        if (id === undefined) return;
        taskId = id;
        for (let left = actor.random.between(0, 2); left > 0; left -= 1) watchers.push(actor.watch(id));
        if (actor.random.chance(0.2)) watchers.push(actor.listen(id));
      };
      const outcome = await actor.client.stream(actor.request(anyScript(actor.random)), onEvent);
      const over = outcome.how === 'answered' && isOver(outcome.value);
      if (!over && taskId !== undefined) await actor.watch(taskId);
      await Promise.all(watchers);
    },
  },
  {
    name: 'is asked, and answers',
    weight: 4,
    async play(actor) {
      const first = await actor.deliver(actor.request(`work ${seconds(actor, 0, 0.5)}\nask what else?`));
      if (first.how !== 'answered' || 'messageId' in first.value) return;
      const { id } = first.value;
      const watching = actor.random.chance(0.6) ? actor.watch(id) : undefined;
      if (actor.random.chance(0.3)) await actor.deliver(actor.request('say thanks\nask and then?', id));
      await actor.deliver(actor.request(anyScript(actor.random), id));
      // Should the follow-up have been refused, the task waits on: it is over when it is canceled.
      await actor.cancel(id);
      await watching;
    },
  },
  {
    name: 'authorizes',
    weight: 1.5,
    async play(actor) {
      const text = actor.random.pick(['auth', 'say hello\nauth 0.5\nsay go on']);
      const first = await actor.deliver(actor.request(text));
      if (first.how !== 'answered' || 'messageId' in first.value) return;
      await actor.client.stream(actor.request('say I am your user\nstream 5 20', first.value.id));
      await actor.cancel(first.value.id);
    },
  },
  {
    name: 'cancels',
    weight: 4,
    async play(actor) {
      const task = await actor.begin(
        actor.random.pick([`work ${seconds(actor, 1, 4)}`, `stream 60 50 50`, `deaf ${seconds(actor, 1, 3)}\nsay no`]),
      );
      if (!task) return;
      const watching = actor.watch(task.id);
      await pause(actor.random.between(0, 1_500));
      const cancels = Array.from({ length: actor.random.between(1, 3) }, () => actor.cancel(task.id));
      await Promise.all(cancels);
      await watching;
    },
  },
  {
    name: 'cancels what waits',
    weight: 1,
    async play(actor) {
      const first = await actor.deliver(actor.request('ask for what?'));
      if (first.how === 'answered' && !('messageId' in first.value)) await actor.cancel(first.value.id);
    },
  },
  {
    name: 'interrupts what runs',
    weight: 1.5,
    async play(actor) {
      const task = await actor.begin(`work ${seconds(actor, 1, 2)}\nstream 10 20`);
      if (!task) return;
      await actor.client.send({ message: userMessage('say me too', { taskId: task.id }) });
      await actor.watch(task.id);
    },
  },
  {
    name: 'comes too late',
    weight: 1.5,
    async play(actor) {
      const done = await actor.deliver(actor.request(anyScript(actor.random)));
      if (done.how !== 'answered' || 'messageId' in done.value) return;
      await actor.client.cancel(done.value.id);
      await actor.client.send({ message: userMessage('say one more', { taskId: done.value.id }) });
      await actor.client.subscribe(done.value.id);
    },
  },
  {
    name: 'says it twice',
    weight: 2,
    async play(actor) {
      const request = actor.request(anyScript(actor.random));
      await Promise.all([actor.deliver(request), actor.deliver(request)]);
    },
  },
  {
    name: 'looks now and then',
    weight: 2,
    async play(actor) {
      const task = await actor.begin(anyScript(actor.random));
      if (!task) return;
      for (let left = 6; left > 0; left -= 1) {
        await pause(300);
        const seen = await actor.client.get(task.id);
        if (seen.how === 'answered' && isOver([{ task: { status: { state: stateOf(seen.value.status?.state) } } }]))
          break;
      }
      await actor.client.list();
    },
  },
  {
    name: 'chats',
    weight: 1,
    async play(actor) {
      await actor.client.send(actor.request(actor.random.pick(['reply hello', 'hello, agent'])));
      await actor.client.stream(actor.request('reply hello, reader'));
    },
  },
];

/** Enough to know an end by. */
const stateOf = (state: number | undefined): string => (state === 3 ? 'TASK_STATE_COMPLETED' : '');
