import type { AgentBehaviour } from './agent-app.fixture.js';
import { aborted, completed, inputRequired, textOf, working } from './agent-events.js';
import { Deferred } from '../../tools/harness/wait.js';

/** Asks its client for more, until that says `end`. */
export const askingAgent: AgentBehaviour = {
  execute: (context, bus) =>
    textOf(context.userMessage) === 'end' ? completed(bus, context) : inputRequired(bus, context),
};

/** Does what it is told at once. */
export const promptAgent: AgentBehaviour = { execute: (context, bus) => completed(bus, context) };

/** Says WORKING, and ends when it is let, whatever happens meanwhile. */
export function heldAgent(): Required<Pick<AgentBehaviour, 'execute'>> & {
  started: Deferred;
  release: Deferred;
  aborted: Deferred<unknown>;
} {
  const started = new Deferred();
  const release = new Deferred();
  const stopped = new Deferred<unknown>();
  return {
    started,
    release,
    aborted: stopped,
    execute: async (context, bus) => {
      working(bus, context);
      await context.turn.flush();
      void aborted(context.turn).then((reason) => stopped.resolve(reason));
      started.resolve();
      await release.promise;
      completed(bus, context, 'done');
    },
  };
}

/** Works until it is let, or stopped. */
export function patientAgent(): Required<Pick<AgentBehaviour, 'execute'>> & { over: Deferred } {
  const over = new Deferred();
  return {
    over,
    execute: async (context, bus) => {
      working(bus, context);
      void aborted(context.turn).then(() => over.resolve());
      await over.promise;
      if (!context.turn.signal.aborted) completed(bus, context);
    },
  };
}
