import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import * as api from '../index.js';
import * as stores from '../stores/index.js';

const here = new URL('.', import.meta.url);
const library = new URL('../', here);
const files = readdirSync(here).filter((file) => file.endsWith('.error.ts'));
const reference = readFileSync(fileURLToPath(new URL('../../../../docs/reference/errors.md', here)), 'utf8');

/** Errors whose code is not theirs alone: an abstract class, and an error of the protocol with the SDK's code. */
const WITHOUT_CODE = ['TurnAbortedError', 'GrpcStatusError'];

const codeOf = (className: string): string =>
  `A2A_${className
    .replace(/Error$/, '')
    .replace(/(?<=[a-z])([A-Z])/g, '_$1')
    .toUpperCase()}`;

const isPublic = (className: string): boolean => className in api || className in stores;

describe('Error codes', () => {
  it.each(files)('%s: the code follows from the name of the class, and the reference names it', (file) => {
    const source = readFileSync(new URL(file, here), 'utf8');
    const classes = [...source.matchAll(/^export (?:abstract )?class (\w+)/gm)].map(([, name]) => name!);
    expect(classes).toHaveLength(1);
    const [className] = classes;
    if (WITHOUT_CODE.includes(className!)) return;
    expect(source).toMatch(new RegExp(`readonly name(: string)? = '${className}'`));
    expect(source).toMatch(new RegExp(`readonly code(: string)? = '${codeOf(className!)}'`));
    if (isPublic(className!)) expect(reference).toContain(`### ${className}\n\n- Code: \`${codeOf(className!)}\``);
  });

  it('all error classes of the library are in files of this folder that are named .error.ts', () => {
    const sources = readdirSync(library, { recursive: true, encoding: 'utf8' }).filter(
      (file) => file.endsWith('.ts') && !file.endsWith('.spec.ts'),
    );
    const declaring = sources.filter((file) =>
      /\bclass\b[^{]*\bextends \w*(Error|Exception)\b/.test(readFileSync(new URL(file, library), 'utf8')),
    );
    expect(declaring.sort()).toEqual(files.map((file) => `errors/${file}`).sort());
  });
});
