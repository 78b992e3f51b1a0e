//! The links in a page's source.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail, ensure};

use crate::markup::Attributes;

/// The meaning of a link. Paths can be opened as they are.
#[derive(Debug, PartialEq, Eq)]
pub enum Asset {
    Icon(PathBuf),
    Css(PathBuf),
    /// A folder whose files the page fetches by their own names.
    Folder(PathBuf),
    /// HTML that replaces the link.
    Inline(PathBuf),
    Program(Program),
}

/// A binary that is compiled to wasm.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Program {
    pub recipe: Recipe,
    pub bin: String,
    pub role: Role,
}

/// The settings of a cargo call; programs with the same recipe are compiled in one call.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Recipe {
    pub manifest: PathBuf,
    pub profile: String,
    /// In cargo's notation, besides the default features.
    pub features: String,
    pub has_default_features: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// The page runs it.
    Page,
    /// The page starts it by name: `NAME_loader.js` if it has a loader, or else `NAME.js`.
    Worker { has_loader: bool },
}

impl Asset {
    /// Reads a link of a page in `folder`. An attribute that trunk supports and this build does not is an error, so
    /// that both build the same page.
    pub fn read(link: &Attributes, folder: &Path) -> Result<Self> {
        let rel = link.required("rel")?;
        let known: &[&str] = match rel {
            "icon" => &["type"],
            "css" | "copy-dir" | "inline" => &[],
            "rust" => &[
                "data-bin",
                "data-type",
                "data-cargo-profile",
                "data-cargo-features",
                "data-cargo-no-default-features",
                "data-loader-shim",
                "data-wasm-opt",
            ],
            _ => bail!("a link has rel=\"{rel}\", which this build does not know"),
        };
        let unknown = link.names().find(|name| !["data-trunk", "rel", "href"].contains(name) && !known.contains(name));
        if let Some(name) = unknown {
            bail!("a link with rel=\"{rel}\" has {name}, which this build does not know");
        }
        let path = folder.join(link.required("href")?);
        Ok(match rel {
            "icon" => Self::Icon(path),
            "css" => Self::Css(path),
            "copy-dir" => Self::Folder(path),
            "inline" => Self::Inline(path),
            _ => Self::Program(Program::read(link, path)?),
        })
    }
}

impl Program {
    fn read(link: &Attributes, manifest: PathBuf) -> Result<Self> {
        // Trunk's default depends on its own options, and Binaryen would be another tool to install.
        ensure!(link.get("data-wasm-opt") == Some("0"), "a link with rel=\"rust\" needs data-wasm-opt=\"0\"");
        let has_loader = link.get("data-loader-shim").is_some();
        let role = match link.get("data-type").unwrap_or("main") {
            "main" if has_loader => bail!("only a worker has a data-loader-shim"),
            "main" => Role::Page,
            "worker" => Role::Worker { has_loader },
            other => bail!("data-type=\"{other}\": there are main and worker"),
        };
        let recipe = Recipe {
            manifest,
            profile: link.get("data-cargo-profile").unwrap_or("release").to_owned(),
            features: link.get("data-cargo-features").unwrap_or_default().to_owned(),
            has_default_features: link.get("data-cargo-no-default-features").is_none(),
        };
        Ok(Self { recipe, bin: link.required("data-bin")?.to_owned(), role })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::markup::{Piece, cut};

    fn read(link: &str) -> Result<Asset> {
        let html = format!("<link data-trunk {link}/>");
        let pieces = cut(&html)?;
        let Piece::Link(link) = &pieces[1] else { panic!("{pieces:?}") };
        Asset::read(link, Path::new("www"))
    }

    #[test]
    fn links_become_what_they_ask_for() {
        assert_eq!(read(r#"rel="css" href="base.css""#).unwrap(), Asset::Css("www/base.css".into()));
        assert_eq!(read(r#"rel="copy-dir" href="opening""#).unwrap(), Asset::Folder("www/opening".into()));
        let page = read(r#"rel="rust" href="../Cargo.toml" data-bin="a" data-cargo-profile="page" data-wasm-opt="0""#);
        let Asset::Program(page) = page.unwrap() else { panic!("no program") };
        assert_eq!((page.recipe.profile.as_str(), page.role), ("page", Role::Page));
        assert!(page.recipe.has_default_features);
        let worker = r#"rel="rust" href="../Cargo.toml" data-bin="w" data-type="worker" data-loader-shim
            data-cargo-no-default-features data-wasm-opt="0""#;
        let Asset::Program(worker) = read(worker).unwrap() else { panic!("no program") };
        assert_eq!(worker.role, Role::Worker { has_loader: true });
        assert_eq!((worker.recipe.profile.as_str(), worker.recipe.features.as_str()), ("release", ""));
        assert!(!worker.recipe.has_default_features);
    }

    #[test]
    fn what_would_be_built_otherwise_than_by_trunk_is_refused() {
        for (link, word) in [
            (r#"rel="scss" href="a.scss""#, "scss"),
            (r#"rel="css" href="a.css" data-target-path="x""#, "data-target-path"),
            (r#"rel="css""#, "no href"),
            (r#"rel="rust" href="Cargo.toml" data-bin="a""#, "data-wasm-opt"),
            (r#"rel="rust" href="Cargo.toml" data-wasm-opt="0""#, "no data-bin"),
            (r#"rel="rust" href="Cargo.toml" data-bin="a" data-wasm-opt="0" data-type="lib""#, "lib"),
            (r#"rel="rust" href="Cargo.toml" data-bin="a" data-wasm-opt="0" data-loader-shim"#, "loader"),
        ] {
            let error = read(link).unwrap_err().to_string();
            assert!(error.contains(word), "{link}: {error}");
        }
    }
}
