import { parseScript, ScriptError } from './script.parser.js';

describe('parseScript', () => {
  it.each([
    ['say hello world', { name: 'say', text: 'hello world' }],
    ['work 0.5', { name: 'work', seconds: 0.5 }],
    ['deaf 3', { name: 'deaf', seconds: 3 }],
    ['block 2', { name: 'block', seconds: 2 }],
    ['stream 200 10', { name: 'stream', chunks: 200, intervalMs: 10, bytes: 0 }],
    ['stream 2 0 1000', { name: 'stream', chunks: 2, intervalMs: 0, bytes: 1000 }],
    ['ask which colour?', { name: 'ask', text: 'which colour?' }],
    ['auth', { name: 'auth' }],
    ['auth 1.5', { name: 'auth', seconds: 1.5 }],
    ['charge 5 never', { name: 'charge', amount: 5, mode: 'never', takesMs: 0 }],
    ['charge 1000000 idempotent 60000', { name: 'charge', amount: 1_000_000, mode: 'idempotent', takesMs: 60_000 }],
    ['charge 5  reconcile  0', { name: 'charge', amount: 5, mode: 'reconcile', takesMs: 0 }],
    ['transfer 7', { name: 'transfer', amount: 7, takesMs: 0 }],
    ['transfer 7 250', { name: 'transfer', amount: 7, takesMs: 250 }],
    ['throw it away', { name: 'throw', text: 'it away' }],
    ['exit', { name: 'exit' }],
    ['reply done', { name: 'reply', text: 'done' }],
  ])('reads %j', (line, command) => {
    expect(parseScript(line)).toEqual([command]);
  });

  it('runs one command a line, in order, and says what is no command', () => {
    expect(parseScript(' say one \n\nstream 3 5\r\nand then\nask two?')).toEqual([
      { name: 'say', text: 'one' },
      { name: 'stream', chunks: 3, intervalMs: 5, bytes: 0 },
      { name: 'say', text: 'and then' },
      { name: 'ask', text: 'two?' },
    ]);
  });

  it.each(['hello', 'two\nlines', '', 'Work 5', 'workers of the world', 'constructor', 'work: 5'])(
    'echoes %j',
    (text) => {
      expect(parseScript(text)).toEqual([{ name: 'echo', text }]);
    },
  );

  it.each([
    ['work', 'work SECONDS: SECONDS must be a number from 0 to 86400, got ""'],
    ['work soon', 'work SECONDS: SECONDS must be a number from 0 to 86400, got "soon"'],
    ['deaf 86401', 'deaf SECONDS: SECONDS must be a number from 0 to 86400, got "86401"'],
    ['block -1', 'block SECONDS: SECONDS must be a number from 0 to 86400, got "-1"'],
    ['stream 0 10', 'stream N MS [BYTES]: N must be a whole number from 1 to 1000000, got "0"'],
    ['stream 5', 'stream N MS [BYTES]: MS must be a whole number from 0 to 60000, got ""'],
    ['stream 5 10 x', 'stream N MS [BYTES]: BYTES must be a whole number from 0 to 1000000, got "x"'],
    ['stream 5 10 2 1', 'stream N MS [BYTES]: takes three numbers at most, got "5 10 2 1"'],
    ['auth soon', 'auth [SECONDS]: SECONDS must be a number from 0 to 86400, got "soon"'],
    ['charge', 'charge N MODE [MS]: N must be a whole number from 1 to 1000000, got ""'],
    ['charge 0 never', 'charge N MODE [MS]: N must be a whole number from 1 to 1000000, got "0"'],
    ['charge 5', 'charge N MODE [MS]: MODE must be never, idempotent or reconcile, got ""'],
    ['charge 5 twice 10', 'charge N MODE [MS]: MODE must be never, idempotent or reconcile, got "twice"'],
    ['charge 5 never soon', 'charge N MODE [MS]: MS must be a whole number from 0 to 86400000, got "soon"'],
    ['charge 5 never 10 1', 'charge N MODE [MS]: takes three arguments at most, got "5 never 10 1"'],
    ['transfer', 'transfer N [MS]: N must be a whole number from 1 to 1000000, got ""'],
    ['transfer 1.5', 'transfer N [MS]: N must be a whole number from 1 to 1000000, got "1.5"'],
    ['transfer 5 86400001', 'transfer N [MS]: MS must be a whole number from 0 to 86400000, got "86400001"'],
    ['transfer 5 10 1', 'transfer N [MS]: takes two numbers at most, got "5 10 1"'],
    ['say', 'say TEXT: says nothing'],
    ['exit 1', 'exit: takes no argument, got "1"'],
  ])('refuses %j in one line, whatever comes before', (line, message) => {
    expect(() => parseScript(`say first\n${line}`)).toThrow(new ScriptError(message));
  });
});
