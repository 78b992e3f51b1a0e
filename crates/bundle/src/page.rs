//! A page: its source, and the folder built from it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};

use crate::{
    assets::{Asset, Program, Role},
    bindgen::{self, Bound},
    cargo::Compiled,
    folder::{self, Folder, INDEX, Storage},
    markup::{self, Piece},
};

/// A parsed page that is not built yet.
pub struct Source {
    file: PathBuf,
    parts: Vec<Part>,
}

enum Part {
    Text(String),
    Asset(Asset),
}

impl Source {
    pub fn read(file: &Path) -> Result<Self> {
        let html = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        Self::parse(file, &html).with_context(|| format!("{} cannot be built", file.display()))
    }

    fn parse(file: &Path, html: &str) -> Result<Self> {
        let folder = file.parent().unwrap_or(Path::new(""));
        let part = |piece: Piece| {
            Ok(match piece {
                Piece::Text(text) => Part::Text(text.to_owned()),
                Piece::Link(link) => Part::Asset(Asset::read(&link, folder)?),
            })
        };
        let parts = markup::cut(html)?.into_iter().map(part).collect::<Result<_>>()?;
        Ok(Self { file: file.into(), parts })
    }

    /// The name of the page's program, or of its only one.
    pub fn name(&self) -> &str {
        let page = self.programs().find(|program| program.role == Role::Page);
        page.or(self.programs().next()).map_or("page", |program| &program.bin)
    }

    fn assets(&self) -> impl Iterator<Item = &Asset> {
        self.parts.iter().filter_map(|part| match part {
            Part::Asset(asset) => Some(asset),
            Part::Text(_) => None,
        })
    }

    pub fn programs(&self) -> impl Iterator<Item = &Program> {
        self.assets().filter_map(|asset| match asset {
            Asset::Program(program) => Some(program),
            _ => None,
        })
    }

    /// Whether this is no page for people: it only names programs that other pages start.
    pub fn is_only_workers(&self) -> bool {
        self.programs().next().is_some() && self.programs().all(|program| program.role != Role::Page)
    }

    /// The name of the page's document, without its ending.
    pub fn document(&self) -> String {
        self.file.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }

    pub fn build(&self, compiled: &Compiled, storage: Storage) -> Result<Folder> {
        self.build_with(storage, |program| bindgen::bind(program, compiled.wasm(program)?))
            .with_context(|| format!("cannot build {}", self.file.display()))
    }

    /// Addresses are relative, so that the page works under any URL.
    fn build_with(&self, storage: Storage, bind: impl Fn(&Program) -> Result<Bound>) -> Result<Folder> {
        let mut folder = Folder::new(storage);
        let (mut html, mut preloads) = (String::new(), String::new());
        for part in &self.parts {
            html += &match part {
                Part::Text(text) => text.clone(),
                Part::Asset(Asset::Icon(path)) => {
                    format!("<link rel=\"icon\" href=\"./{}\"/>", add_hashed(&mut folder, path)?)
                }
                Part::Asset(Asset::Css(path)) => {
                    format!("<link rel=\"stylesheet\" href=\"./{}\"/>", add_hashed(&mut folder, path)?)
                }
                Part::Asset(Asset::Inline(path)) => {
                    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?
                }
                Part::Asset(Asset::Folder(path)) => {
                    for (name, content) in folder::files(path)? {
                        folder.add(name, content);
                    }
                    String::new()
                }
                Part::Asset(Asset::Program(program)) => {
                    let bound = bind(program)?;
                    match program.role {
                        Role::Page => {
                            let (script, links) = add_page(&mut folder, &program.bin, bound)?;
                            preloads += &links;
                            script
                        }
                        Role::Worker { has_loader } => {
                            add_worker(&mut folder, &program.bin, has_loader, bound)?;
                            String::new()
                        }
                    }
                }
            };
        }
        let end = html.find("</head>").context("the page has no </head>")?;
        html.insert_str(end, &preloads);
        folder.add(INDEX, html.into_bytes());
        Ok(folder)
    }
}

/// Adds a file under a name with its hash, and returns the name.
fn add_hashed(folder: &mut Folder, path: &Path) -> Result<String> {
    let content = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let part = |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
    let name = format!("{}-{}.{}", part(path.file_stem()), folder::hash([&*content]), part(path.extension()));
    folder.add(name.clone(), content);
    Ok(name)
}

/// Adds a program that the page runs. Returns the script that starts it, and links that make a browser fetch its files
/// before it has parsed the script.
fn add_page(folder: &mut Folder, bin: &str, Bound { js, wasm, snippets }: Bound) -> Result<(String, String)> {
    let base = format!("{bin}-{}", folder::hash([&*js, &*wasm]));
    let (module, binary) = (format!("{base}.js"), format!("{base}_bg.wasm"));
    let modules = std::iter::once(&module).chain(snippets.iter().map(|(name, _)| name));
    let mut links: String = modules
        .map(|name| format!("<link rel=\"modulepreload\" href=\"./{name}\" crossorigin=\"anonymous\">"))
        .collect();
    links += &format!(
        "<link rel=\"preload\" href=\"./{binary}\" crossorigin=\"anonymous\" as=\"fetch\" type=\"application/wasm\">"
    );
    let script = format!(
        "<script type=\"module\">\nimport init from './{module}';\nawait init({{ module_or_path: './{binary}' }});\n</script>"
    );
    folder.add_program(module, js)?;
    folder.add_program(binary.clone(), wasm)?;
    folder.is_small(&binary)?;
    for (name, content) in snippets {
        folder.add_program(name, content)?;
    }
    Ok((script, links))
}

/// Adds a program that the page starts by name, which is why the name has no hash.
fn add_worker(folder: &mut Folder, bin: &str, has_loader: bool, Bound { js, wasm, snippets }: Bound) -> Result<()> {
    ensure!(snippets.is_empty(), "{bin} imports {}: a script cannot", snippets[0].0);
    if has_loader {
        let loader = format!("importScripts(\"./{bin}.js\");wasm_bindgen({{ module_or_path: \"./{bin}_bg.wasm\" }});");
        folder.add(format!("{bin}_loader.js"), loader.into_bytes());
    }
    folder.add_program(format!("{bin}.js"), js)?;
    folder.add_program(format!("{bin}_bg.wasm"), wasm)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(program: &Program) -> Result<Bound> {
        Ok(Bound { js: program.bin.clone().into_bytes(), wasm: vec![0; 4], snippets: Vec::new() })
    }

    const PAGE: &str = r#"<head>
<link data-trunk rel="icon" type="image/svg+xml" href="icon.svg" />
<link data-trunk rel="css" href="base.css" />
<link data-trunk rel="copy-dir" href="opening" />
<link data-trunk rel="rust" href="Cargo.toml" data-bin="a" data-wasm-opt="0" />
<link data-trunk rel="rust" href="Cargo.toml" data-bin="w" data-type="worker" data-loader-shim data-wasm-opt="0" />
<link data-trunk rel="rust" href="Cargo.toml" data-bin="v" data-type="worker" data-wasm-opt="0" />
</head>
<body><link data-trunk rel="inline" href="loading.html" /></body>
"#;

    fn build(snippets: &[(&str, &str)]) -> Result<Folder> {
        let place = tempfile::tempdir().unwrap();
        let file = |name: &str| place.path().join(name);
        fs::create_dir(file("opening")).unwrap();
        for name in ["icon.svg", "base.css", "opening/strip.png", "loading.html"] {
            fs::write(file(name), format!("<{name}>")).unwrap();
        }
        Source::parse(&file("page.html"), PAGE)?.build_with(Storage::Packed, |program| {
            let snippets = snippets.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec())).collect();
            Ok(Bound { snippets, ..bound(program)? })
        })
    }

    #[test]
    fn a_page_becomes_a_folder_with_all_that_it_asks_for() {
        let folder = build(&[]).unwrap();
        let hash = folder::hash([&b"a"[..], &[0; 4]]);
        let (css, icon) = (folder::hash([&b"<base.css>"[..]]), folder::hash([&b"<icon.svg>"[..]]));
        let (style, icon) = (format!("base-{css}.css"), format!("icon-{icon}.svg"));
        let (module, binary) = (format!("a-{hash}.js"), format!("a-{hash}_bg.wasm"));
        let workers = ["v.js", "v_bg.wasm", "w.js", "w_bg.wasm", "w_loader.js"];
        let mut names = vec![&*style, &*icon, &*module, &*binary, "index.html", "opening/strip.png"];
        names.extend(workers);
        names.sort_unstable();
        assert_eq!(folder.names(), names);
        let loader = "importScripts(\"./w.js\");wasm_bindgen({ module_or_path: \"./w_bg.wasm\" });";
        assert_eq!(folder.text("w_loader.js"), loader);
        let expected = format!(
            "<head>\n<link rel=\"icon\" href=\"./{icon}\"/>\n<link rel=\"stylesheet\" href=\"./{style}\"/>\n\n\
             <script type=\"module\">\nimport init from './{module}';\nawait init({{ module_or_path: './{binary}' }});\n\
             </script>\n\n\n<link rel=\"modulepreload\" href=\"./{module}\" crossorigin=\"anonymous\">\
             <link rel=\"preload\" href=\"./{binary}\" crossorigin=\"anonymous\" as=\"fetch\" type=\"application/wasm\">\
             </head>\n<body><loading.html></body>\n"
        );
        assert_eq!(folder.text("index.html"), expected);
    }

    #[test]
    fn a_script_that_would_have_to_import_is_refused() {
        let error = format!("{:#}", build(&[("snippets/x.js", "")]).unwrap_err());
        assert!(error.contains("w imports snippets/x.js"), "{error}");
    }

    /// A browser that cannot parse the script does not run it, and loads for ever.
    #[test]
    fn what_old_browsers_hear_is_written_in_old_javascript() {
        let html = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../www/loading.html")).unwrap();
        let (_, script) = html.split_once("<script>").unwrap();
        let (script, _) = script.split_once("</script>").unwrap();
        for line in script.lines().filter(|line| !line.trim_start().starts_with("//")) {
            for new in ["let ", "const ", "=>", "`", " of ", "...", "class ", "?.", "??", "async", "await", "import"] {
                assert!(!line.contains(new), "{new} in {line}");
            }
        }
    }

    #[test]
    fn every_page_of_the_project_can_be_read() {
        let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for (name, file) in [
            ("projector", "index.html"),
            ("projector", "www/projector.html"),
            ("replay", "www/replay.html"),
            ("gpu", "www/gpu.html"),
            ("student", "www/student.html"),
            ("student", "www/phone.html"),
        ] {
            let source = Source::read(&top.join(file)).unwrap();
            assert_eq!(source.name(), name);
            assert!(source.programs().any(|program| program.bin == name));
        }
    }
}
