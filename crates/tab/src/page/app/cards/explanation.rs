//! How an attack works, for those who open the drawer.

use leptos::prelude::*;

use crate::page::app::signals::part;

/// Sentence, equation, limits, and what stands in the equation.
#[component]
pub fn Explanation(how: Memo<Option<unmask_core::Explanation>>, title: &'static str) -> impl IntoView {
    let symbols = part(how, |how| how.symbols.clone());
    view! {
        <section class="explanation" data-testid="how">
            <h4>{title}</h4>
            <p>{part(how, |how| how.sentence.clone())}</p>
            <p class="equation">{part(how, |how| how.equation.clone())}</p>
            <p class="sub">{part(how, |how| how.limits.clone())}</p>
            <table>
                <thead>
                    <tr>
                        <th scope="col">"symbol"</th>
                        <th scope="col">"meaning"</th>
                        <th scope="col">"shape"</th>
                    </tr>
                </thead>
                <tbody>
                    <For each=move || symbols().unwrap_or_default() key=Clone::clone let:symbol>
                        {
                            let [name, meaning, shape] = symbol;
                            view! { <tr><th scope="row">{name}</th><td>{meaning}</td><td>{shape}</td></tr> }
                        }
                    </For>
                </tbody>
            </table>
        </section>
    }
}
