/** Lets the event loop do what else is due, timers and sockets among it, before more of a long work is done. */
export const turnOfTheLoop = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
