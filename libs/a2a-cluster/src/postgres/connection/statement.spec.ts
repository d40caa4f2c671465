import { joinLines, RowList } from './row-list.js';
import { Statement } from './statement.js';

describe('Statement', () => {
  test('gives each name one number, wherever it stands, and its values in that order', () => {
    const statement = new Statement<{ key: number; text: string | undefined }>('SELECT $text::text, $key, $text');
    expect(statement.text).toBe('SELECT $1::text, $2, $1');
    expect(statement.values({ key: 7, text: undefined })).toEqual([null, 7]);
  });

  test('leaves what is quoted alone: names of tables and texts may hold a dollar sign', () => {
    const statement = new Statement<{ key: number }>(`SELECT 'it''s $key' FROM "acme$prod_""$key" WHERE no = $key`);
    expect(statement.text).toBe(`SELECT 'it''s $key' FROM "acme$prod_""$key" WHERE no = $1`);
  });

  test('takes a parameter that is not there for a mistake, not for NULL', () => {
    const statement = new Statement<{ generation: number }>('SELECT $generation');
    expect(() => statement.values({} as never)).toThrow('no value for its parameter generation');
  });
});

describe('RowList', () => {
  test('sends texts as lines, and NULL as an empty one', () => {
    const list = new RowList<{ no: number; json: string | null }>({ no: 'bigint', json: 'lines' });
    expect(list.as('r')).toBe(
      "unnest($no::bigint[], string_to_array($json::text, E'\\n', '')) WITH ORDINALITY AS r(no, json, at)",
    );
    expect(
      list.params([
        { no: 1, json: '{}' },
        { no: 2, json: null },
      ]),
    ).toEqual({ no: [1, 2], json: '{}\n' });
  });

  test('refuses a text that would be two lines', () => {
    expect(() => joinLines(['{}', '{\n}'])).toThrow(RangeError);
  });
});
