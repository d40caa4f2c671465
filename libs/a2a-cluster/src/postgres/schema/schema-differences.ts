import type { DataSource, EntityMetadata, ObjectLiteral, ObjectType } from 'typeorm';

/** How the database's tables differ from what the statements need. Each is a sentence without its full stop. */
export interface SchemaDifferences {
  /** Tables that are not there, as SQL names them. */
  missingTables: string[];
  /** Differences that make statements fail. */
  wrong: string[];
  /** Statements that grant what the role has not. */
  grants: string[];
  /** Differences that make statements slow. */
  slow: string[];
}

type ColumnMetadata = EntityMetadata['columns'][number];

/** An index by what it does: names are free. */
interface IndexShape {
  columns: string[];
  unique: boolean;
  partial: boolean;
}

/** An index that the entities have. */
interface WantedIndex extends IndexShape {
  where: string | undefined;
}

/** A unique index of the database; `usable`: valid, and checked at once. */
interface FoundIndex extends IndexShape {
  usable: boolean;
}

interface FoundColumn {
  name: string;
  type: string;
  notNull: boolean;
  /** A default, an identity, or an expression. */
  filled: boolean;
}

interface FoundTable {
  found: boolean;
  /** The role of the DataSource. */
  role: string;
  /** The schema that it is in, or would be looked for; null where there is none of that name. */
  schema: string | null;
  /** Whether the role may look into it. */
  schemaUsable: boolean | null;
  columns: FoundColumn[];
  indexes: FoundIndex[];
  /** Rights on the table that the role has not. */
  lacking: string[];
  /** Sequences of its columns that the role may not draw from, as SQL names them. */
  lackingSequences: string[];
}

/**
 * Reads the catalog in one query. It takes no lock on the tables, so a boot beside a migration does not wait.
 * Tables without a schema are those that the role's search_path finds. Rights on each of its columns are as good as one on
 * the table.
 * $1 schemas or null, $2 names, $3 as SQL names them.
 */
const FOUND_TABLES = `
  SELECT c.oid IS NOT NULL AS found, quote_ident(current_user) AS role, quote_ident(n.nspname) AS schema,
         has_schema_privilege(n.oid, 'USAGE') AS "schemaUsable",
         coalesce(columns.list, '[]') AS columns,
         coalesce(indexes.list, '[]') AS indexes,
         coalesce(rights.lacking, '[]') AS lacking,
         coalesce(sequences.lacking, '[]') AS "lackingSequences"
    FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS w(schema, name, path, at)
         LEFT JOIN pg_catalog.pg_namespace AS n 
           ON n.nspname = coalesce(w.schema, CASE WHEN current_setting('search_path') LIKE '%public%' THEN 'public' END)
         LEFT JOIN pg_catalog.pg_class AS c
           ON CASE WHEN w.schema IS NULL THEN c.oid = to_regclass(w.path)
                   ELSE c.relnamespace = n.oid AND c.relname = w.name AND c.relkind IN ('r', 'p', 'v', 'f') END
   CROSS JOIN LATERAL (
     SELECT json_agg(json_build_object('name', a.attname, 'type', format_type(a.atttypid, NULL), 'notNull', a.attnotnull,
                                       'filled', a.atthasdef OR a.attidentity <> '' OR a.attgenerated <> '')) AS list
       FROM pg_catalog.pg_attribute AS a
      WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
   ) AS columns
   CROSS JOIN LATERAL (
     SELECT json_agg(json_build_object('unique', i.indisunique, 'partial', i.indpred IS NOT NULL,
                                       'usable', i.indisvalid AND i.indimmediate, 'columns', keys.names)) AS list
       FROM pg_catalog.pg_index AS i
            CROSS JOIN LATERAL (
              SELECT json_agg(a.attname ORDER BY k.at) AS names
                FROM unnest(i.indkey::smallint[]) WITH ORDINALITY AS k(attnum, at)
                     LEFT JOIN pg_catalog.pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
               WHERE k.at <= i.indnkeyatts
            ) AS keys
      WHERE i.indrelid = c.oid
   ) AS indexes
   CROSS JOIN LATERAL (
     SELECT json_agg(r.name) FILTER (WHERE NOT r.granted) AS lacking
       FROM (SELECT p.name,
                    has_table_privilege(c.oid, p.name)
                    OR bool_and(CASE WHEN p.name <> 'DELETE' THEN has_column_privilege(c.oid, a.attnum, p.name) ELSE false END)
                    AS granted
               FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS p(name),
                    pg_catalog.pg_attribute AS a
              WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
              GROUP BY p.name) AS r
   ) AS rights
   CROSS JOIN LATERAL (
     SELECT json_agg(DISTINCT s.oid::regclass::text) AS lacking
       FROM pg_catalog.pg_depend AS d JOIN pg_catalog.pg_class AS s ON s.oid = d.objid
      WHERE d.classid = 'pg_catalog.pg_class'::regclass AND d.refclassid = 'pg_catalog.pg_class'::regclass
        AND d.refobjid = c.oid AND d.refobjsubid > 0 AND d.deptype IN ('a', 'i')
        AND NOT CASE WHEN s.relkind = 'S' THEN has_sequence_privilege(s.oid, 'USAGE, UPDATE') ELSE true END
   ) AS sequences
   ORDER BY w.at`;

/**
 * Compares the tables of these entities with the database. What the database has beyond them is none of our business, but
 * for columns that nobody fills.
 */
export async function schemaDifferences(
  dataSource: DataSource,
  entities: readonly ObjectType<ObjectLiteral>[],
): Promise<SchemaDifferences> {
  const wanted = entities.map((entity) => dataSource.getMetadata(entity));
  const paths = wanted.map((metadata) => pathOf(dataSource, metadata));
  const found = await dataSource.query<FoundTable[]>(FOUND_TABLES, [
    wanted.map(({ schema }) => schema ?? null),
    wanted.map(({ tableName }) => tableName),
    paths,
  ]);
  const differences: SchemaDifferences = { missingTables: [], wrong: [], grants: [], slow: [] };
  const grants = new Set<string>();
  for (const [at, metadata] of wanted.entries()) {
    const path = paths[at]!;
    const { role, schema, schemaUsable, lacking, lackingSequences, columns, indexes, ...table } = found[at]!;
    if (schemaUsable === false && (metadata.schema !== undefined || !table.found)) {
      grants.add(`GRANT USAGE ON SCHEMA ${schema} TO ${role}`);
    }
    if (!table.found) {
      differences.missingTables.push(path);
      continue;
    }
    if (lacking.length > 0) grants.add(`GRANT ${lacking.join(', ')} ON ${path} TO ${role}`);
    for (const sequence of lackingSequences) grants.add(`GRANT USAGE ON SEQUENCE ${sequence} TO ${role}`);
    compareColumns(dataSource, metadata, path, columns, differences);
    compareIndexes(metadata, path, indexes, differences);
  }
  return { ...differences, grants: [...grants] };
}

const pathOf = ({ driver }: DataSource, { schema, tableName }: EntityMetadata): string =>
  [schema, tableName].flatMap((part) => (part === undefined ? [] : [driver.escape(part)])).join('.');

function compareColumns(
  dataSource: DataSource,
  metadata: EntityMetadata,
  path: string,
  found: FoundColumn[],
  { wrong }: SchemaDifferences,
): void {
  for (const column of metadata.columns) {
    const { databaseName } = column;
    const there = found.find(({ name }) => name === databaseName);
    if (!there) {
      wrong.push(`${path} has no column ${databaseName}`);
      continue;
    }
    const type = typeOf(dataSource, column);
    if (there.type !== type) wrong.push(`${path}.${databaseName} is of type ${there.type} instead of ${type}`);
    if (there.notNull && column.isNullable) wrong.push(`${path}.${databaseName} is NOT NULL, and has to take NULL`);
    const fills = column.isGenerated || column.default !== undefined;
    if (fills && there.notNull && !there.filled) {
      wrong.push(`${path}.${databaseName} has no ${column.isGenerated ? 'identity' : 'default'}`);
    }
  }
  const ours = new Set(metadata.columns.map(({ databaseName }) => databaseName));
  for (const { name, notNull, filled } of found) {
    if (!ours.has(name) && notNull && !filled) {
      wrong.push(`${path}.${name} is NOT NULL without a default, and A2AClusterModule does not know it`);
    }
  }
}

/** As PostgreSQL says it. */
function typeOf({ driver }: DataSource, column: ColumnMetadata): string {
  return driver.normalizeType(column) + (column.isArray ? '[]' : '');
}

/**
 * Unique indexes have to be there, in any order of columns: promises rest on them, and ON CONFLICT needs them. Other
 * indexes only make statements faster.
 */
function compareIndexes(
  metadata: EntityMetadata,
  path: string,
  found: FoundIndex[],
  { wrong, slow }: SchemaDifferences,
): void {
  const wanted = wantedIndexes(metadata);
  for (const index of wanted.filter(({ unique }) => unique)) {
    const unique = found.some(
      (one) => one.unique && one.usable && one.partial === index.partial && sameColumns(one.columns, index.columns),
    );
    if (!unique) wrong.push(`${path} has no ${described(index)}`);
  }
  // Several partial ones may have the same columns. Their conditions are not compared: PostgreSQL writes them its own way.
  for (const shape of new Set(wanted.map(shapeOf))) {
    const group = wanted.filter((one) => shapeOf(one) === shape);
    const there = found.filter((one) => one.usable && shapeOf(one) === shape).length;
    const missing = group.length - there;
    if (missing <= 0) continue;
    const all = group.map(described).join('; ');
    slow.push(group.length === missing ? `${path} has no ${all}` : `${path} has ${there} of ${group.length}: ${all}`);
  }
}

function wantedIndexes({ primaryColumns, uniques, indices }: EntityMetadata): WantedIndex[] {
  const namesOf = (columns: ColumnMetadata[]): string[] => columns.map(({ databaseName }) => databaseName);
  const always = (columns: ColumnMetadata[]): WantedIndex => ({
    columns: namesOf(columns),
    unique: true,
    partial: false,
    where: undefined,
  });
  return [
    always(primaryColumns),
    ...uniques.map(({ columns }) => always(columns)),
    ...indices.map(({ columns, isUnique, where }) => ({
      columns: namesOf(columns),
      unique: isUnique,
      partial: Boolean(where),
      where,
    })),
  ];
}

/** A unique index serves a search like any other. */
const shapeOf = ({ columns, partial }: IndexShape): string => JSON.stringify([columns, partial]);

const sameColumns = (some: string[], others: string[]): boolean =>
  JSON.stringify([...some].sort()) === JSON.stringify([...others].sort());

const described = ({ columns, unique, where }: WantedIndex): string =>
  `${unique ? 'unique index' : 'index'} on (${columns.join(', ')})${where ? ` WHERE ${where}` : ''}`;
